//! (to come)
/// The store volume.
pub struct StoreVolume;
