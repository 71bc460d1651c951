//! The kernel's face, through the kernel: sessions, their nesting, what the kernel remembers and what it is told.

mod caches;
mod dead;
mod dispatch;
mod faulty;
mod handles;
mod nesting;
mod ordinary_user;
mod tree;
mod unmount;
