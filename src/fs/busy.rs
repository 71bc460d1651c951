//! Who uses a mount.

use super::mountinfo::{Device, MountTable};
use crate::types::{Errno, Error};
use rustix::fs::{Mode, OFlags, open};
use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;

/// More users than this are not named.
const NAMED: usize = 5;

/// What keeps a mount busy, as far as this user may see it.
pub(super) fn explain(path: &Path, device: Device) -> Error {
    let busy = Error::new("unmount", Errno::EBUSY);
    let table = MountTable::read().ok();
    if table.as_ref().and_then(|table| table.at(path)).is_some_and(|top| top.device != device) {
        let path = path.display();
        return busy.context(format!("something else was mounted over {path}; unmount that first, or detach lazily"));
    }
    if let Some(inner) = table.and_then(|table| table.inside(path)) {
        let way_out = "unmount that first, or detach lazily";
        return busy.context(format!("another filesystem is mounted inside, at {}; {way_out}", inner.display()));
    }
    let users = users(path, device);
    let who = match users.as_slice() {
        [] => "nobody that this user may see; root sees more".to_owned(),
        some => some.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", "),
    };
    let more = users.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let way_out = "end them, or detach lazily";
    busy.context(format!("{} is in use by {who}{more}; {way_out}", path.display()))
}

/// The processes that hold a mount, and by what. Nothing here asks the mount itself, which may hang: descriptors are
/// told apart by the id of their mount, and mappings by their device.
fn users(path: &Path, device: Device) -> Vec<String> {
    let Some(mount) = MountTable::read().ok().and_then(|table| Some(table.find(path, device)?.id)) else {
        return Vec::new();
    };
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let mut users = Vec::new();
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if let Some(how) = holds(&process.path(), mount, device) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            users.push(format!("{} (pid {pid}, {how})", name.trim()));
        }
    }
    users
}

fn holds(process: &Path, mount: u64, device: Device) -> Option<&'static str> {
    let links = [("cwd", "its working directory"), ("root", "its root"), ("exe", "its program")];
    let link = links.iter().find(|(link, _)| mount_behind(&process.join(link)) == Some(mount));
    if let Some((_, how)) = link {
        return Some(how);
    }
    if opened(process, mount) {
        return Some("an open file");
    }
    mapped(process, device).then_some("a mapped file")
}

/// The mount that a link of /proc leads to. `O_PATH` stops at the name: the file itself is not asked for.
fn mount_behind(link: &Path) -> Option<u64> {
    let at = open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    mount_id(&fs::read_to_string(format!("/proc/self/fdinfo/{}", at.as_raw_fd())).ok()?)
}

fn opened(process: &Path, mount: u64) -> bool {
    let Ok(files) = fs::read_dir(process.join("fdinfo")) else { return false };
    files.flatten().any(|file| fs::read_to_string(file.path()).is_ok_and(|info| mount_id(&info) == Some(mount)))
}

fn mount_id(fdinfo: &str) -> Option<u64> {
    fdinfo.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

fn mapped(process: &Path, device: Device) -> bool {
    let device = format!("{:02x}:{:02x}", device.major, device.minor);
    let Ok(maps) = fs::read_to_string(process.join("maps")) else { return false };
    maps.lines().any(|line| line.split_ascii_whitespace().nth(3) == Some(device.as_str()))
}
