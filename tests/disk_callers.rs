//! What a disk volume makes belongs to whoever asked, and nobody keeps privileges that a write takes away.

use crate::disk::{Disk, RW, errno, is_root, name, now, refusal};
use bytes::Bytes;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::{Child, Command};
use workfs::mounts::Volume;
use workfs::types::{Access, Caller, Errno, FileKind, Mode, OpenFlags, Origin, Privileges, SetAttr};

const USER: u32 = 65534;
const TEAM: u32 = 4242;

/// A process of an ordinary user that is in a group, for its groups to be read from.
struct Member(Child);

impl Member {
    fn new() -> Member {
        let groups = format!("--groups={TEAM}");
        let ids = [format!("--reuid={USER}"), format!("--regid={USER}")];
        let child = Command::new("setpriv").args(ids).arg(groups).args(["sleep", "60"]).spawn().expect("util-linux");
        let member = Member(child);
        let status = || fs::read_to_string(format!("/proc/{}/status", member.0.id())).unwrap_or_default();
        for _ in 0..500 {
            if status().contains(&format!("Groups:\t{TEAM}")) {
                return member;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("setpriv did not start its program");
    }

    fn caller(&self) -> Caller {
        Caller { uid: USER, gid: USER, tid: self.0.id(), origin: Origin::new() }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ownership(path: impl AsRef<std::path::Path>) -> (u32, u32, u32) {
    let stat = fs::symlink_metadata(path).expect("stat");
    (stat.uid(), stat.gid(), stat.mode() & 0o7777)
}

fn set_mode(path: impl AsRef<std::path::Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
}

#[test]
fn what_is_made_belongs_to_the_caller_and_the_thread_is_itself_again() {
    if !is_root() {
        return;
    }
    let disk = Disk::new();
    set_mode(disk.folder.path(), 0o777);
    let (member, root) = (Member::new(), disk.root);
    let caller = member.caller();
    let volume = &disk.volume;
    now(volume.create(&caller, root, &name("f"), Mode::new(0o640), RW)).expect("made");
    now(volume.mkdir(&caller, root, &name("d"), Mode::new(0o750))).expect("made");
    now(volume.mknod(&caller, root, &name("p"), FileKind::Fifo, Mode::new(0o604), 0)).expect("made");
    now(volume.symlink(&caller, root, &name("l"), b"f")).expect("made");
    assert_eq!(ownership(disk.path("f")), (USER, USER, 0o640));
    assert_eq!(ownership(disk.path("d")), (USER, USER, 0o750));
    assert_eq!(ownership(disk.path("p")), (USER, USER, 0o604));
    assert_eq!(ownership(disk.path("l")), (USER, USER, 0o777));
    now(volume.mkdir(&disk.me, root, &name("ours"), Mode::new(0o700))).expect("made");
    assert_eq!(ownership(disk.path("ours")), (0, 0, 0o700));
    let status = fs::read_to_string("/proc/thread-self/status").expect("read");
    let line = |key: &str| status.lines().find(|line| line.starts_with(key)).expect("a line").to_owned();
    assert_eq!(line("Uid:"), "Uid:\t0\t0\t0\t0");
    assert_eq!(line("Gid:"), "Gid:\t0\t0\t0\t0");
    assert!(!line("Groups:").contains(&TEAM.to_string()));
}

#[test]
fn a_supplementary_group_lets_its_members_in() {
    if !is_root() {
        return;
    }
    let disk = Disk::new();
    let member = Member::new();
    fs::create_dir(disk.path("team")).expect("made");
    chown(disk.path("team"), Some(0), Some(TEAM)).expect("chown");
    set_mode(disk.path("team"), 0o2770);
    let team = disk.look(disk.root, "team").attr.node;
    let volume = &disk.volume;
    let in_team = member.caller();
    now(volume.create(&in_team, team, &name("f"), Mode::new(0o660), RW)).expect("made");
    now(volume.mkdir(&in_team, team, &name("d"), Mode::new(0o770))).expect("made");
    assert_eq!(ownership(disk.path("team/f")), (USER, TEAM, 0o660), "the group is the directory's");
    assert_eq!(ownership(disk.path("team/d")), (USER, TEAM, 0o2770), "set-group-id is inherited");
    // Who is in the group may keep its bit; the host takes it from others.
    now(volume.create(&in_team, team, &name("s"), Mode::new(0o2770), RW)).expect("made");
    assert_eq!(ownership(disk.path("team/s")).2, 0o2770);
    // A caller whose groups are not known was let in by the kernel, and that has to do.
    let unknown = Caller { tid: 0, ..in_team };
    now(volume.create(&unknown, team, &name("u"), Mode::new(0o600), RW)).expect("made");
    assert_eq!(ownership(disk.path("team/u")), (USER, TEAM, 0o600));
    // The host refuses somebody known to be in no such group, had the kernel let them in by what it remembered.
    let stranger = Caller { uid: 1234, gid: 1234, tid: std::process::id(), origin: Origin::new() };
    let refused = now(volume.create(&stranger, team, &name("x"), Mode::new(0o600), RW));
    assert_eq!(refusal(refused), Errno::EACCES);
}

#[test]
fn a_file_that_was_there_is_opened_by_create_only_for_those_who_may() {
    if !is_root() {
        return;
    }
    let disk = Disk::new();
    let member = Member::new();
    fs::write(disk.path("roots"), "secret").expect("written");
    set_mode(disk.path("roots"), 0o600);
    fs::write(disk.path("teams"), "team").expect("written");
    chown(disk.path("teams"), Some(0), Some(TEAM)).expect("chown");
    set_mode(disk.path("teams"), 0o640);
    let (volume, caller) = (&disk.volume, member.caller());
    let open = |text: &str, access| {
        let flags = OpenFlags::access(access);
        now(volume.create(&caller, disk.root, &name(text), Mode::new(0o600), flags)).map(drop)
    };
    assert_eq!(open("roots", Access::Read).expect_err("refused").errno(), Errno::EACCES);
    open("teams", Access::Read).expect("the group may read");
    assert_eq!(open("teams", Access::Write).expect_err("refused").errno(), Errno::EACCES);
    let unknown = Caller { tid: 0, ..caller };
    for text in ["roots", "teams"] {
        let flags = OpenFlags::access(Access::Read);
        let refused = now(volume.create(&unknown, disk.root, &name(text), Mode::new(0o600), flags));
        assert_eq!(refusal(refused), Errno::EACCES, "whose groups are not known has none");
    }
    assert_eq!(fs::read(disk.path("roots")).expect("read"), b"secret");
}

#[test]
fn a_write_by_others_takes_privileges_away() {
    let disk = Disk::new();
    let node = disk.make("f", b"#!");
    let file = now(disk.volume.open(&disk.me, node, RW)).expect("opens");
    let user = Caller { uid: USER, gid: USER, ..disk.me };
    let mode = |bits| set_mode(disk.path("f"), bits);
    let is = || ownership(disk.path("f")).2;
    let write = |privileges| now(file.write_at(&user, 0, Bytes::from("x"), privileges)).expect("written");
    if is_root() {
        mode(0o6755);
        write(Privileges::Keep);
        assert_eq!(is(), 0o6755);
    }
    mode(0o6755);
    write(Privileges::Drop);
    assert_eq!(is(), 0o755);
    mode(0o6755);
    now(file.truncate(&user, 1, Privileges::Drop)).expect("cut");
    assert_eq!(is(), 0o755);
    mode(0o6755);
    now(disk.volume.setattr(&user, node, &SetAttr::size(0))).expect("cut");
    assert_eq!(is(), 0o755);
    if is_root() {
        mode(0o6755);
        now(disk.volume.setattr(&disk.me, node, &SetAttr::size(0))).expect("cut");
        assert_eq!(is(), 0o6755, "root keeps them");
        let chown = SetAttr { uid: Some(USER), ..SetAttr::default() };
        let attr = now(disk.volume.setattr(&disk.me, node, &chown)).expect("given away");
        assert_eq!((attr.uid, attr.mode.bits()), (USER, 0o755), "a change of owner takes them by any caller");
    }
}

#[test]
fn a_write_takes_file_capabilities_away() {
    if !is_root() {
        return;
    }
    let disk = Disk::new();
    let node = disk.make("f", b"#!");
    const NAME: &[u8] = b"security.capability";
    // `cap_net_raw=ep`, as `setcap` writes it (version 2).
    let value = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let set = disk.volume.setxattr(&disk.me, node, NAME, &value, workfs::types::XattrMode::Set);
    now(set).expect("set");
    let file = now(disk.volume.open(&disk.me, node, RW)).expect("opens");
    now(file.write_at(&disk.me, 0, Bytes::from("x"), Privileges::Drop)).expect("written");
    assert_eq!(errno(disk.volume.getxattr(node, NAME)), Errno::ENODATA);
}
