//! What every volume must do: the sentences of the contracts [`Volume`] and [`OpenFile`], each with its case.
//!
//! `conformance::run(volume)` runs all of them, each in a directory of its own. It needs a volume that is empty or at
//! least free of names `case-*`, and a caller that is root in it.

mod attributes;
mod bytes;
mod listings;
mod names;
mod nodes;
mod renames;
mod scene;
mod xattrs;

use scene::Scene;
use std::sync::Arc;
use workfs::mounts::Volume;

/// Runs every case; the first that fails panics, and the output above names it.
pub async fn run(volume: Arc<dyn Volume>) {
    let scene = Scene::new(volume).await;
    names::run(&scene).await;
    renames::run(&scene).await;
    attributes::run(&scene).await;
    bytes::run(&scene).await;
    xattrs::run(&scene).await;
    listings::run(&scene).await;
    nodes::run(&scene).await;
}

/// Runs cases one after another, each in a directory of its own, and says which.
macro_rules! cases {
    ($($case:ident)*) => {
        pub async fn run(scene: &$crate::conformance::scene::Scene) {
            $(
                eprintln!("conformance: {} :: {}", module_path!(), stringify!($case));
                let at = scene.fresh(stringify!($case)).await;
                tokio::time::timeout(std::time::Duration::from_secs(60), $case(&at))
                    .await
                    .expect(concat!(stringify!($case), " must end"));
            )*
        }
    };
}
use cases;
