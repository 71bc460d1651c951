//! Points in time, at nanoseconds, before 1970 and past 2038 alike.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970-01-01T00:00:00Z, negative before it; ±292 years.
///
/// One number, so that a later time is a greater number in every store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Timestamp(pub i64);

const NANOS: i64 = 1_000_000_000;

impl Timestamp {
    /// The machine's clock.
    pub fn now() -> Timestamp {
        SystemTime::now().into()
    }

    /// From whole seconds and the nanoseconds after them, as `struct timespec` has it; clamped to what fits.
    pub fn from_parts(seconds: i64, nanos: u32) -> Timestamp {
        Timestamp(seconds.saturating_mul(NANOS).saturating_add(i64::from(nanos)))
    }

    /// Whole seconds, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(NANOS)
    }

    /// Nanoseconds after [`Timestamp::seconds`], 0 to 999,999,999.
    pub fn nanos(self) -> u32 {
        self.0.rem_euclid(NANOS) as u32
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Timestamp {
        let nanos = |d: Duration| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp(nanos(after)),
            Err(before) => Timestamp(-nanos(before.duration())),
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> SystemTime {
        let distance = Duration::from_nanos(time.0.unsigned_abs());
        if time.0 >= 0 { UNIX_EPOCH + distance } else { UNIX_EPOCH - distance }
    }
}

/// A time that a caller sets: one of its own, or the moment of the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTime {
    /// This very time.
    At(Timestamp),
    /// The moment of the operation (`UTIME_NOW`).
    Now,
}

impl SetTime {
    /// The time meant, where the moment is `now`.
    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            SetTime::At(time) => time,
            SetTime::Now => now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_keep_their_nanoseconds() {
        let time = Timestamp::from_parts(-2, 250_000_000);
        assert_eq!((time.seconds(), time.nanos()), (-2, 250_000_000));
        assert_eq!(Timestamp::from(SystemTime::from(time)), time);
    }

    #[test]
    fn times_past_2038_fit() {
        let time = Timestamp::from_parts(1 << 33, 1);
        assert_eq!((time.seconds(), time.nanos()), (1 << 33, 1));
    }
}
