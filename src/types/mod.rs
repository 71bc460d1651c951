//! The ground floor: ids, names and paths, attributes, flags, locks, the caller, changes, and the one error type.
//!
//! Every other room speaks in these words; none of them knows a volume, a store or the kernel.

mod attr;
mod caller;
mod change;
mod errno;
mod error;
mod flags;
mod ids;
mod lock;
mod name;
mod path;
mod span;
mod time;

pub use attr::{Attr, Entry, FileKind, Mode, SetAttr, StatFs, Validity};
pub use caller::{Caller, Origin};
pub use change::{Change, ChangeKind, ChangeStream};
pub use errno::Errno;
pub use error::{Error, Result};
pub use flags::{Access, AllocateMode, OpenFlags, Privileges, RenameMode, Seek, XattrMode};
pub use ids::{Cookie, Generation, NodeId};
pub use lock::{LockInTheWay, LockKind, LockOwner, LockRange, LockRequest};
pub use name::{NAME_MAX, Name};
pub use path::TreePath;
pub use span::{FILE_MAX, end_of};
pub use time::{SetTime, Timestamp};
