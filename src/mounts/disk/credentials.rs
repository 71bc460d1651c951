//! Doing things as the caller: what is made belongs to whoever asked for it, and its mode is the one that was given.
//!
//! The credentials of a thread are switched for one synchronous stretch and put back by a guard. The umask is ours and
//! not the caller's, whose own has been applied already; each thread that makes files gets a umask of its own first
//! (`unshare(CLONE_FS)`), so that setting it to nothing for a moment touches no other thread's files.

use super::host;
use super::sys;
use crate::types::{Caller, Errno, Error, Mode, Result};
use rustix::fs::{Gid, OFlags};
use rustix::thread::CapabilitySet;
use std::cell::Cell;
use std::io::Read;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;

thread_local! {
    /// Whether this thread has a umask of its own; `None` before it was tried.
    static OWN_UMASK: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Who this process is.
pub struct Daemon {
    root: bool,
    gid: u32,
    groups: Vec<Gid>,
}

impl Daemon {
    /// Reads it from the kernel.
    pub fn new() -> Daemon {
        let root = rustix::process::geteuid().is_root();
        Daemon {
            root,
            gid: rustix::process::getegid().as_raw(),
            groups: rustix::process::getgroups().unwrap_or_default(),
        }
    }

    /// Makes this thread act as `caller`, who makes something with `mode` in `dir`, until the guard is dropped. The
    /// kernel has checked that the caller may. An ordinary user's daemon stays who it is.
    ///
    /// Errors: `EPERM` where the caller's numbers mean nothing here.
    pub fn make_as(&self, caller: &Caller, dir: BorrowedFd<'_>, mode: Mode) -> Result<Acting<'_>> {
        let mut acting = Acting::new(self, mode);
        if self.is(caller) {
            return Ok(acting);
        }
        // The caller's own directory lets it in as the owner; its groups matter elsewhere, and for set-group-id.
        let owns = || host::stat(dir).is_ok_and(|stat| stat.stx_uid == caller.uid);
        let groups_matter = caller.uid != 0 && (mode.bits() & 0o2000 != 0 || !owns());
        let groups = if groups_matter { groups_of(caller.tid) } else { None };
        acting.switch(caller, groups.as_deref())?;
        if groups_matter && groups.is_none() {
            keep_override();
        }
        Ok(acting)
    }

    /// As [`Daemon::make_as`], to have the host check what the kernel could not: with all of the caller's groups, and
    /// with none where they cannot be known.
    pub fn check_as(&self, caller: &Caller) -> Result<Acting<'_>> {
        let mut acting = Acting::new(self, Mode::new(0));
        if !self.is(caller) {
            acting.switch(caller, Some(&groups_of(caller.tid).unwrap_or_default()))?;
        }
        Ok(acting)
    }

    fn is(&self, caller: &Caller) -> bool {
        !self.root || (caller.uid == 0 && caller.gid == self.gid)
    }
}

/// This thread acts as somebody else until this is dropped.
pub struct Acting<'a> {
    daemon: &'a Daemon,
    uid: bool,
    gid: bool,
    groups: bool,
    umask: Option<rustix::fs::Mode>,
    mode: Mode,
    /// What was switched is the thread's, so the guard stays on it.
    on_this_thread: PhantomData<*const ()>,
}

impl<'a> Acting<'a> {
    fn new(daemon: &'a Daemon, mode: Mode) -> Acting<'a> {
        let own = OWN_UMASK.get().unwrap_or_else(|| sys::unshare_umask().is_ok());
        OWN_UMASK.set(Some(own));
        let umask = own.then(|| rustix::process::umask(rustix::fs::Mode::empty()));
        Acting { daemon, uid: false, gid: false, groups: false, umask, mode, on_this_thread: PhantomData }
    }

    /// Each step is noted before it is taken, so that the guard undoes it in any case.
    fn switch(&mut self, caller: &Caller, groups: Option<&[Gid]>) -> Result<()> {
        if let Some(groups) = groups {
            self.groups = true;
            rustix::thread::set_thread_groups(groups).map_err(host::failed("setgroups"))?;
        }
        self.gid = true;
        self.uid = caller.uid != 0;
        if !sys::set_fs_gid(caller.gid) || (self.uid && !sys::set_fs_uid(caller.uid)) {
            return Err(Error::new("setfsuid", Errno::EPERM)
                .context(format!("user {} or group {} does not exist here", caller.uid, caller.gid)));
        }
        Ok(())
    }

    /// Where this thread could not have a umask of its own (a sandbox forbade it), gives the file just made the bits
    /// that ours took away.
    pub fn mend_mode(&self, made: BorrowedFd<'_>) -> rustix::io::Result<()> {
        if self.umask.is_some() {
            return Ok(());
        }
        let is = u32::from(host::stat(made)?.stx_mode) & 0o7777;
        match is | (self.mode.bits() & 0o777) {
            meant if meant != is => rustix::fs::chmod(host::proc_path(made), rustix::fs::Mode::from_raw_mode(meant)),
            _ => Ok(()),
        }
    }
}

impl Drop for Acting<'_> {
    #[expect(clippy::disallowed_methods, reason = "to act as the wrong user is worse than to leave a dead mount")]
    fn drop(&mut self) {
        // Going back to user 0 also gives back the capabilities that leaving it took away (capabilities(7)).
        let restored = (!self.uid || sys::set_fs_uid(0))
            && (!self.gid || sys::set_fs_gid(self.daemon.gid))
            && (!self.groups || rustix::thread::set_thread_groups(&self.daemon.groups).is_ok());
        if let Some(umask) = self.umask {
            rustix::process::umask(umask);
        }
        if !restored {
            // Whatever this thread did next, it would do as the wrong user.
            tracing::error!("a thread could not become itself again after acting for a caller");
            std::process::abort();
        }
    }
}

/// The caller's groups are not known (it has no thread id here, or is gone), so the permission that the kernel checked
/// before it asked us has to do.
fn keep_override() {
    if let Ok(mut sets) = rustix::thread::capabilities(None) {
        sets.effective |= CapabilitySet::DAC_OVERRIDE;
        // Without it the host checks again and may refuse: safe, so nothing more to do.
        let _ = rustix::thread::set_capabilities(None, sets);
    }
}

/// The supplementary groups of a thread, read from the kernel; `None` where it cannot tell.
fn groups_of(tid: u32) -> Option<Vec<Gid>> {
    if tid == 0 {
        return None;
    }
    let path = format!("/proc/{tid}/status");
    let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, rustix::fs::Mode::empty()).ok()?;
    let mut status = String::with_capacity(2048);
    std::fs::File::from(fd).read_to_string(&mut status).ok()?;
    parse_groups(&status)
}

fn parse_groups(status: &str) -> Option<Vec<Gid>> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"))?;
    line.split_ascii_whitespace().map(|gid| gid.parse().ok().map(Gid::from_raw)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_as_the_kernel_writes_them() {
        let parsed = parse_groups("Name:\tx\nUid:\t1\t1\t1\t1\nGroups:\t4 20 100 \nNStgid:\t1\n");
        assert_eq!(parsed, Some([4, 20, 100].map(Gid::from_raw).to_vec()));
        assert_eq!(parse_groups("Groups:\t \n"), Some(Vec::new()));
        assert_eq!(parse_groups("Name:\tx\n"), None);
    }
}
