//! The model on every kind of place, with crashes and remounts of the server between the operations.

use super::choose::Chooser;
use super::mounted::Mounted;
use super::reference::{Inode, Model};
use super::run::Run;
use super::world::Habits;
use crate::harness::{Kind, Scene, each_stored_kind, full, random};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;
use workfs::types::Mode;

/// What differs between the kinds.
fn habits(kind: Kind) -> Habits {
    let store = kind.is_store();
    Habits { noatime: store, tick: if store { 0 } else { 20_000_000 }, counts_room: false }
}

async fn go(scene: &mut Scene, steps: u64) {
    let largest = if scene.kind().is_store() { i64::MAX as u64 } else { 1 << 40 };
    let mut chooser = Chooser::new(random::seed(), true, largest);
    let root = std::fs::metadata(scene.path()).expect("stat");
    let model = Model::new(Mode::new(root.mode()), root.uid(), root.gid());
    let mut run = Run::new(Mounted::new(scene.path()), model, habits(scene.kind()));
    while run.steps < steps {
        run.step(&mut chooser).await;
        match chooser.random.u32(..1000) {
            0 if scene.kind() == Kind::Sqlite => {
                scene.kill();
                after(scene, &mut run).await;
            }
            1 if scene.kind().keeps() => {
                run.world.close_files();
                scene.unmount();
                run.model.nodes.values_mut().for_each(Inode::commit);
                after(scene, &mut run).await;
            }
            2 => run.whole().await,
            _ => {}
        }
    }
    run.whole().await;
    run.world.close_files();
}

/// Mounts again, and finds what was kept.
async fn after(scene: &mut Scene, run: &mut Run<Mounted>) {
    run.world.close_files();
    run.model.let_go();
    scene.mount();
    run.world = Mounted::new(scene.path());
    run.settle().await;
    run.whole().await;
}

each_stored_kind! {
    fn through_the_kernel(scene) {
        scene.takes(Duration::from_secs(if full() { 1200 } else { 120 }));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(go(scene, if full() { 10_000 } else { 1_500 }));
    }
}
