//! Extended attributes.

use crate::harness::tree::xattr;
use crate::harness::{Failed, Kind, each_kind, program, put, sys};
use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lremovexattr, lsetxattr};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{create_dir, rename};
use std::os::unix::fs::symlink;
use std::path::Path;

fn set(path: &Path, name: &str, value: &[u8]) -> rustix::io::Result<()> {
    lsetxattr(path, name, value, XattrFlags::empty())
}

fn names(path: &Path) -> BTreeSet<String> {
    let mut buffer = vec![0_u8; 64 << 10];
    let length = llistxattr(path, &mut buffer[..]).expect("listxattr");
    let names = buffer[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    names
        .map(|name| String::from_utf8(name.to_vec()).expect("UTF-8"))
        .filter(|name| name.starts_with("user."))
        .collect()
}

each_kind! {
    fn values_are_kept(scene) {
        let path = scene.at("x");
        put(&path, b"");
        set(&path, "user.k", b"v").expect("setxattr");
        set(&path, "user.empty", b"").expect("setxattr");
        set(&path, "user.bytes", &[0, 255, 10, 0]).expect("setxattr");
        set(&path, "user.k", b"another").expect("setxattr");
        assert_eq!(xattr(&path, b"user.k"), Ok(b"another".to_vec()));
        assert_eq!(xattr(&path, b"user.empty"), Ok(vec![]));
        assert_eq!(names(&path), BTreeSet::from(["user.k", "user.empty", "user.bytes"].map(String::from)));
        rename(&path, scene.at("y")).expect("rename");
        scene.remount_if_kept();
        assert_eq!(xattr(&scene.at("y"), b"user.bytes"), Ok(vec![0, 255, 10, 0]));
        lremovexattr(scene.at("y"), "user.k").expect("removexattr");
        assert_eq!(xattr(&scene.at("y"), b"user.k").errno(), Errno::NODATA);
        assert_eq!(lremovexattr(scene.at("y"), "user.k").errno(), Errno::NODATA);
        assert_eq!(names(&scene.at("y")).len(), 2);
    }

    fn create_and_replace_are_told_apart(scene) {
        let path = scene.at("x");
        put(&path, b"");
        assert_eq!(lsetxattr(&path, "user.k", b"1", XattrFlags::REPLACE).errno(), Errno::NODATA);
        lsetxattr(&path, "user.k", b"1", XattrFlags::CREATE).expect("setxattr");
        assert_eq!(lsetxattr(&path, "user.k", b"2", XattrFlags::CREATE).errno(), Errno::EXIST);
        lsetxattr(&path, "user.k", b"3", XattrFlags::REPLACE).expect("setxattr");
        assert_eq!(xattr(&path, b"user.k"), Ok(b"3".to_vec()));
    }

    fn sizes_are_told_and_buffers_checked(scene) {
        let path = scene.at("x");
        put(&path, b"");
        set(&path, "user.k", &[7; 1000]).expect("setxattr");
        assert_eq!(sys::xattr_size(&path, c"user.k").expect("getxattr"), 1000, "an empty buffer asks for the size");
        assert_eq!(lgetxattr(&path, "user.k", &mut [0_u8; 999][..]).errno(), Errno::RANGE);
        let all = sys::xattr_list_size(&path).expect("listxattr");
        assert!(all > "user.k".len());
        assert_eq!(llistxattr(&path, &mut vec![0_u8; all - 1][..]).errno(), Errno::RANGE);
    }

    fn limits_are_refused_with_their_errno(scene) {
        let path = scene.at("x");
        put(&path, b"");
        let longest = format!("user.{}", "n".repeat(250));
        set(&path, &longest, b"v").expect("a name of 255 bytes");
        assert_eq!(set(&path, &format!("{longest}n"), b"v").errno(), Errno::RANGE);
        assert_eq!(set(&path, "user.big", &vec![0; (64 << 10) + 1]).errno(), Errno::TOOBIG);
        match set(&path, "user.big", &vec![9; 60_000]) {
            Ok(()) => assert_eq!(xattr(&path, b"user.big").expect("getxattr").len(), 60_000),
            Err(error) => {
                // Some filesystems of the host keep no more than a block.
                assert!(!scene.kind().is_store() && error == Errno::NOSPC, "{error}");
                assert_eq!(xattr(&path, b"user.big").errno(), Errno::NODATA, "nothing was kept of it");
            }
        }
        assert_eq!(set(&path, "nonsense.k", b"v").errno(), Errno::OPNOTSUPP);
    }

    fn directories_have_them_and_symlinks_do_not(scene) {
        create_dir(scene.at("d")).expect("mkdir");
        set(&scene.at("d"), "user.k", b"of the directory").expect("setxattr");
        assert_eq!(xattr(&scene.at("d"), b"user.k"), Ok(b"of the directory".to_vec()));
        set(scene.path(), "user.root", b"r").expect("a root too");
        assert_eq!(xattr(scene.path(), b"user.root"), Ok(b"r".to_vec()));
        symlink("d", scene.at("l")).expect("symlink");
        assert_eq!(set(&scene.at("l"), "user.k", b"v").errno(), Errno::PERM, "the kernel says so");
    }

    fn trusted_ones_are_for_root(scene) {
        let path = scene.at("x");
        put(&path, b"");
        match set(&path, "trusted.k", b"t") {
            Ok(()) => {
                assert_eq!(xattr(&path, b"trusted.k"), Ok(b"t".to_vec()));
                set(&path, "user.k", b"u").expect("setxattr");
                program::need(&["getfattr", "setpriv"]);
                let listed = "setpriv --reuid 65534 --regid 65534 --clear-groups getfattr --absolute-names -m - x";
                let others = scene.bash(listed, &[]);
                assert!(others.contains("user.k") && !others.contains("trusted.k"), "{others}");
            }
            Err(error) => assert!(scene.kind() != Kind::Native && error == Errno::OPNOTSUPP, "{error}"),
        }
    }

    fn many_are_kept(scene) {
        let path = scene.at("x");
        put(&path, b"");
        for index in 0..40 {
            set(&path, &format!("user.name-{index}"), format!("value-{index}").as_bytes()).expect("setxattr");
        }
        assert_eq!(names(&path).len(), 40);
        scene.remount_if_kept();
        for index in 0..40 {
            let value = xattr(&path, format!("user.name-{index}").as_bytes());
            assert_eq!(value, Ok(format!("value-{index}").into_bytes()));
        }
    }

    fn tools_show_and_copy_them(scene) {
        program::need(&["setfattr", "getfattr"]);
        let script = "touch f; setfattr -n user.note -v 'a note' f; cp --preserve=xattr f g; getfattr --only-values -n user.note g";
        assert_eq!(scene.bash(script, &[]), "a note");
    }
}
