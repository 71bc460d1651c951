//! Mounting and unmounting a session's directory: by the system calls as root, by `fusermount3` otherwise.
//!
//! fuser could do both, but it unmounts by path when it drops a session, and the path may have been mounted anew by
//! then.

use super::mountinfo::{Device, FS_TYPE, MountTable};
use crate::types::{Errno, Error, Result};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::ffi::CString;
use std::fmt::Write;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// How a session is mounted.
pub(super) struct MountSpec<'a> {
    /// What the mount table shows as the source.
    pub source: &'a str,
    pub read_only: bool,
    /// Users other than the one who mounts may enter; the kernel checks permissions in any case.
    pub allow_other: bool,
}

/// Mounts a new session at `path`; what is returned speaks for it with the kernel.
///
/// Device nodes can be made and set-user-id bits set, but neither has an effect through the mount (`nodev`, `nosuid`):
/// a store that somebody hands to root must not give its contents root's power.
pub(super) fn mount(path: &Path, spec: &MountSpec<'_>) -> Result<OwnedFd> {
    let mounted = if rustix::process::geteuid().is_root() { mount_as_root(path, spec) } else { by_helper(path, spec) };
    mounted.map_err(|error| error.context(format!("{} cannot be mounted at {}", spec.source, path.display())))
}

fn mount_as_root(path: &Path, spec: &MountSpec<'_>) -> Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    let device = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| Error::from_io("open /dev/fuse", e.into()))?;
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mut data = format!("fd={},rootmode=40000,user_id={uid},group_id={gid},default_permissions", device.as_raw_fd());
    if spec.allow_other {
        data.push_str(",allow_other");
    }
    let data = CString::new(data).map_err(|e| Error::new("mount", Errno::EINVAL).source(e))?;
    let mut flags = MountFlags::NODEV | MountFlags::NOSUID;
    flags.set(MountFlags::RDONLY, spec.read_only);
    rustix::mount::mount(spec.source, path, FS_TYPE, flags, data.as_c_str())
        .map_err(|e| Error::from_io("mount", e.into()))?;
    Ok(device)
}

/// Asks the set-user-id helper, which hands the device over through a socket (`_FUSE_COMMFD`).
fn by_helper(path: &Path, spec: &MountSpec<'_>) -> Result<OwnedFd> {
    let fail = |e: std::io::Error| Error::from_io("fusermount3", e).context("fusermount3 is needed (package fuse3)");
    let (ours, theirs) = UnixStream::pair().map_err(fail)?;
    // The helper finds its end of the socket as its standard input: that needs no descriptor that other children of
    // this process could inherit.
    let child = Command::new("fusermount3")
        .args(["-o", &options(spec), "--"])
        .arg(path)
        .env("_FUSE_COMMFD", "0")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(fail)?;
    let device = receive(&ours);
    let output = child.wait_with_output().map_err(fail)?;
    device.map_err(fail)?.ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Error::new("fusermount3", Errno::EPERM).source(said)
    })
}

fn options(spec: &MountSpec<'_>) -> String {
    let mut options = format!("fsname={},subtype=workfs,default_permissions", escaped(spec.source));
    for (wanted, option) in [(spec.read_only, ",ro"), (spec.allow_other, ",allow_other")] {
        if wanted {
            options.push_str(option);
        }
    }
    options
}

/// A comma in a name would end it and begin an option; a line feed would begin a line of `/etc/mtab`.
fn escaped(source: &str) -> String {
    source.chars().fold(String::new(), |mut text, c| {
        match c {
            ',' | '\\' => write!(text, "\\{c}").ok(),
            c if c.is_control() => write!(text, "?").ok(),
            c => write!(text, "{c}").ok(),
        };
        text
    })
}

/// Waits for the helper to send the device; `None` where it ended without.
fn receive(socket: &UnixStream) -> std::io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut data = [IoSliceMut::new(&mut byte)];
    loop {
        match rustix::net::recvmsg(socket, &mut data, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => break,
        }
    }
    Ok(control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    }))
}

/// How to unmount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmount {
    /// Only if nobody uses it (`EBUSY`).
    Now,
    /// Out of sight at once, and gone when the last user is.
    Lazily,
}

/// Unmounts `device` from `path`; nothing happens where it is not mounted there.
///
/// # Errors
/// `EBUSY` where it is in use, or where something else was mounted over it.
pub(super) fn unmount(path: &Path, device: Device, how: Unmount) -> Result<()> {
    let table = MountTable::read()?;
    if table.find(path, device).is_none() {
        return Ok(());
    }
    if table.at(path).is_some_and(|top| top.device != device) {
        return Err(Error::new("unmount", Errno::EBUSY).context("something else was mounted over it"));
    }
    unmount_top(path, how)
}

/// Unmounts whatever is on top at `path`; lazily, with all that is below it.
///
/// # Errors
/// `EBUSY` where it is in use; what `umount2(2)` or `fusermount3` says.
pub fn unmount_top(path: &Path, how: Unmount) -> Result<()> {
    let flags =
        UnmountFlags::NOFOLLOW | if how == Unmount::Lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(path, flags) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::PERM) => unmount_by_helper(path, how),
        Err(error) => Err(Error::from_io("unmount", error.into()).context(path.display().to_string())),
    }
}

fn unmount_by_helper(path: &Path, how: Unmount) -> Result<()> {
    let how: &[&str] = if how == Unmount::Lazily { &["-u", "-z", "--"] } else { &["-u", "--"] };
    let output = Command::new("fusermount3")
        .args(how)
        .arg(path)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Error::from_io("fusermount3", e).context("fusermount3 is needed (package fuse3)"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let errno = if said.contains("busy") { Errno::EBUSY } else { Errno::EPERM };
    Err(Error::new("fusermount3", errno).context(path.display().to_string()).source(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_the_source_adds_no_option() {
        let spec = MountSpec { source: "disk:a,suid,b\\", read_only: true, allow_other: false };
        assert_eq!(options(&spec), "fsname=disk:a\\,suid\\,b\\\\,subtype=workfs,default_permissions,ro");
    }
}
