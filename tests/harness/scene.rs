//! A temporary folder with a workspace mounted in it.

use super::deadline::Deadline;
use super::kind::{Kind, Sessions};
use super::mount_table;
use super::server::Server;
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The name under which the standard scene mounts the volume that is being tried.
const UNDER_TEST: &str = "place";

/// One mount of a workspace.
#[derive(Clone, Debug)]
pub struct MountSpec {
    /// Where in the tree: `/`, or a path without a slash before it.
    pub at: String,
    /// What it is.
    pub kind: Kind,
    /// The folder or SQLite file below the scene's folder; two mounts with one source are two views of it.
    pub source: String,
    /// Whether it is read-only.
    pub read_only: bool,
}

impl MountSpec {
    /// A mount at `at` whose source is named after it.
    pub fn new(at: &str, kind: Kind) -> MountSpec {
        let source = format!("volume-{}", at.trim_matches('/').replace('/', "-"));
        MountSpec { at: at.to_owned(), kind, source, read_only: false }
    }

    /// The same mount, read-only.
    pub fn read_only(mut self) -> MountSpec {
        self.read_only = true;
        self
    }

    /// The same mount of another source.
    pub fn source(mut self, source: &str) -> MountSpec {
        self.source = source.to_owned();
        self
    }

    /// As the command takes it.
    fn argument(&self, home: &Path) -> String {
        let source = home.join(&self.source);
        let volume = match self.kind {
            Kind::Native => panic!("the kernel mounts what is native"),
            Kind::Disk | Kind::Passthrough => format!("disk:{}", source.display()),
            Kind::Sqlite => format!("sqlite:{}", source.display()),
            Kind::Memory => format!("memory:{}", self.source),
        };
        format!("{}={volume}{}", self.at, if self.read_only { ":ro" } else { "" })
    }

    /// As a config file has it, which alone knows passthrough.
    fn table(&self, home: &Path) -> String {
        let MountSpec { at, source, .. } = self;
        let volume = home.join(source);
        format!("[[mount]]\nat = \"{at}\"\nvolume = \"disk:{}\"\nio = \"passthrough\"\n", volume.display())
    }
}

/// A mounted workspace. Dropping it unmounts, whatever happened; [`Scene::end`] also fails the test where that was not
/// clean.
pub struct Scene {
    // Dropped in this order: the server ends, the watch is called off, the folder goes.
    server: Option<Server>,
    deadline: Deadline,
    kind: Kind,
    sessions: Sessions,
    mounts: Vec<MountSpec>,
    place: PathBuf,
    home: Option<TempDir>,
}

impl Scene {
    /// A volume of this kind, mounted inside another (so that what is between mounts counts too); tests work in
    /// [`Scene::path`].
    pub fn new(kind: Kind, sessions: Sessions) -> Scene {
        let outer = MountSpec::new("/", Kind::Disk).source("outer");
        Scene::with_mounts(kind, sessions, vec![outer, MountSpec::new(UNDER_TEST, kind)])
    }

    /// A workspace of these mounts; [`Scene::path`] is the last of them. Where `kind` is native, the kernel's own
    /// filesystems stand for them.
    pub fn with_mounts(kind: Kind, sessions: Sessions, mounts: Vec<MountSpec>) -> Scene {
        Scene::prepared(kind, sessions, mounts, |_| ())
    }

    /// The same, after `prepare` has worked in the scene's folder.
    pub fn prepared(kind: Kind, sessions: Sessions, mounts: Vec<MountSpec>, prepare: impl FnOnce(&Path)) -> Scene {
        let home = tempfile::Builder::new().prefix("workfs-test-").tempdir().expect("a temporary folder");
        // Other users take part in some tests.
        std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o755)).expect("its mode can be set");
        std::fs::create_dir(home.path().join("mnt")).expect("a mountpoint can be made");
        prepare(home.path());
        let last = mounts.last().expect("a workspace has mounts");
        let place = home.path().join("mnt").join(last.at.trim_start_matches('/'));
        let deadline = Deadline::new(home.path(), Duration::from_secs(120));
        let mut scene = Scene { server: None, deadline, kind, sessions, mounts, place, home: Some(home) };
        scene.mount();
        scene
    }

    /// What holds the files.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How the tree is put together.
    pub fn sessions(&self) -> Sessions {
        self.sessions
    }

    /// The directory to work in: the root of the volume under test.
    pub fn path(&self) -> &Path {
        &self.place
    }

    /// A path below [`Scene::path`].
    pub fn at(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.place.join(relative)
    }

    /// Makes [`Scene::path`] the mount at `at`.
    pub fn work_in(&mut self, at: &str) {
        self.place = self.root().join(at.trim_start_matches('/'));
    }

    /// The root of the mounted tree.
    pub fn root(&self) -> PathBuf {
        self.home().join("mnt")
    }

    /// The scene's folder, on the host's own filesystem: sources of volumes are in it, and tests may use it.
    pub fn home(&self) -> &Path {
        self.home.as_ref().expect("the folder is there until the end").path()
    }

    /// The time the test has. To be called at its start where two minutes are too few.
    pub fn takes(&mut self, limit: Duration) {
        let server = self.server.as_ref().map(Server::pid);
        self.deadline = Deadline::new(self.home(), limit);
        self.deadline.set_server(server);
    }

    /// The watch over the test, to which programs are told.
    pub fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    /// The server; a native scene has none.
    pub fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("a server runs")
    }

    /// Where each mount of the workspace is.
    pub fn mountpoints(&self) -> Vec<PathBuf> {
        let at = |spec: &MountSpec| match spec.at.trim_matches('/') {
            "" => self.root(),
            inner => self.root().join(inner),
        };
        self.mounts.iter().map(at).collect()
    }

    /// Mounts what is not mounted, a dead mount left by [`Scene::kill`] included.
    pub fn mount(&mut self) {
        if let Err(error) = self.try_mount() {
            panic!("{error}");
        }
    }

    /// The same, where it may fail.
    pub fn try_mount(&mut self) -> Result<(), String> {
        if self.kind == Kind::Native {
            self.mount_natively();
            return Ok(());
        }
        // A folder that is only read is never made.
        for spec in self.mounts.iter().filter(|spec| spec.read_only && !spec.kind.is_store()) {
            std::fs::create_dir_all(self.home().join(&spec.source)).expect("a folder can be made");
        }
        let mountpoints = if self.sessions == Sessions::Nested { self.mountpoints() } else { vec![self.root()] };
        let server = Server::start(self.command(), &self.root(), &mountpoints, &self.home().join("server.log"))?;
        self.deadline.set_server(Some(server.pid()));
        self.server = Some(server);
        Ok(())
    }

    /// The command line that serves this scene.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_workfs"));
        command.arg("mount").arg(self.root()).arg("--foreground");
        command.arg(if self.sessions == Sessions::Nested { "--nested" } else { "--single" });
        command.env("WORKFS_STATE_DIR", self.home().join("state"));
        if let Some(filter) = std::env::var_os("WORKFS_TEST_LOG") {
            command.env("WORKFS_LOG", filter);
        } else {
            command.env_remove("WORKFS_LOG");
        }
        let (tables, arguments): (Vec<_>, Vec<_>) =
            self.mounts.iter().partition(|spec| spec.kind == Kind::Passthrough && !spec.read_only);
        for spec in arguments {
            command.arg("-m").arg(spec.argument(self.home()));
        }
        if !tables.is_empty() {
            let config = self.home().join("workfs.toml");
            super::put(&config, tables.iter().map(|spec| spec.table(self.home())).collect::<String>());
            command.arg("-c").arg(config);
        }
        command
    }

    /// Directories stand for volumes of one filesystem each, so a plain scene needs no privilege; where a test asks for
    /// the borders between mounts, tmpfs and bind mounts have them.
    fn mount_natively(&self) {
        for (spec, at) in self.mounts.iter().zip(self.mountpoints()) {
            std::fs::create_dir_all(&at).expect("a directory can be made");
            if spec.at != "/" && spec.at != UNDER_TEST {
                let source = self.home().join(&spec.source);
                let fresh = !source.exists();
                std::fs::create_dir_all(&source).expect("a directory can be made");
                if fresh {
                    mount_tmpfs(&source);
                }
                bind(&source, &at, spec.read_only);
            }
        }
    }

    /// Unmounts as a person does, and fails the test where that is not clean.
    pub fn unmount(&mut self) {
        if let Some(mut server) = self.server.take() {
            self.deadline.set_server(None);
            let status = server.stop(Signal::TERM).unwrap_or_else(|error| panic!("{error}"));
            assert!(status.success(), "the server ended with {status}\n{}", server.said());
            let left = mount_table::below(&self.root());
            assert!(left.is_empty(), "mounts are left after a clean end: {left:?}\n{}", server.said());
        }
    }

    /// Unmounts and mounts again: what is found then was kept.
    pub fn remount(&mut self) {
        if self.kind != Kind::Native {
            self.unmount();
            self.mount();
        }
    }

    /// The same for a kind that keeps its files; any other stays mounted.
    pub fn remount_if_kept(&mut self) {
        if self.kind.keeps() {
            self.remount();
        }
    }

    /// Kills the server as a crash does.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            self.deadline.set_server(None);
            server.kill();
        }
    }

    /// The end of a test that went well: everything must end cleanly too.
    pub fn end(mut self) {
        self.unmount();
        assert!(!self.deadline.expired(), "the test's time was up: its mounts were taken away");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(server) = &self.server
        {
            eprintln!("the server said:\n{}", server.said());
        }
        drop(self.server.take());
        mount_table::detach(self.home());
        // To delete a folder in which something is still mounted would delete what is mounted.
        if !mount_table::below(self.home()).is_empty() {
            let kept = self.home.take().map(TempDir::keep);
            eprintln!("LEFT BEHIND: something is still mounted below {kept:?}");
        }
    }
}

fn mount_tmpfs(at: &Path) {
    use rustix::mount::{MountFlags, mount};
    mount("tmpfs", at, "tmpfs", MountFlags::empty(), None).expect("root can mount a tmpfs");
}

fn bind(source: &Path, at: &Path, read_only: bool) {
    use rustix::mount::{MountFlags, mount_bind, mount_remount};
    mount_bind(source, at).expect("root can bind a directory");
    if read_only {
        mount_remount(at, MountFlags::BIND | MountFlags::RDONLY, "").expect("a bind mount can be made read-only");
    }
}
