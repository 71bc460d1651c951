//! Bytes and choices that look random and can be had again from their seed.

/// The seed of this run: `WORKFS_SEED` where it is set, so that a failure can be repeated.
pub fn seed() -> u64 {
    let given = std::env::var("WORKFS_SEED").ok();
    let seed = given.map_or_else(|| fastrand::u64(..), |text| text.parse().expect("WORKFS_SEED is a number"));
    eprintln!("seed: WORKFS_SEED={seed}");
    seed
}

/// `len` bytes that only this seed gives.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}
