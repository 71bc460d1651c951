//! (to come)
/// A volume that refuses changes.
pub struct ReadOnly;
