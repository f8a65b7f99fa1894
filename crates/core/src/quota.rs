//! A quota: how much of something is allowed, over which time, counted by which algorithm.

use std::fmt;

/// The largest count or burst a limit may name.
pub const COUNT_MAX: u64 = 1_000_000_000_000;
/// The shortest window.
pub const WINDOW_US_MIN: u64 = 1_000;
/// The longest window: 366 days.
pub const WINDOW_US_MAX: u64 = 366 * 86_400 * 1_000_000;
/// The exact log keeps every hit, so it is for small limits only.
pub const SLIDING_LOG_COUNT_MAX: u64 = 10_000;
/// The two-bucket estimate keeps each count in 32 bits.
pub const SLIDING_WINDOW_COUNTER_COUNT_MAX: u64 = u32::MAX as u64;
/// How many groups a sliding window is divided into.
pub const SLIDING_WINDOW_GROUPS: u64 = 32;

/// Integers up to here survive a round trip through a double with room to round.
const EXACT_MAX: u128 = 1 << 51;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Algorithm {
    /// Never more than N in any window. The default without a burst.
    SlidingWindow,
    /// A bucket of `burst`, drained at N per window. The default with a burst. Also `token_bucket`.
    Gcra,
    /// N per aligned window.
    FixedWindow,
    /// The previous window, weighted, plus the current one.
    SlidingWindowCounter,
    /// Every hit remembered.
    SlidingLog,
}

impl Algorithm {
    pub const ALL: [Algorithm; 5] = [
        Algorithm::SlidingWindow,
        Algorithm::Gcra,
        Algorithm::FixedWindow,
        Algorithm::SlidingWindowCounter,
        Algorithm::SlidingLog,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Algorithm::SlidingWindow => "sliding_window",
            Algorithm::Gcra => "gcra",
            Algorithm::FixedWindow => "fixed_window",
            Algorithm::SlidingWindowCounter => "sliding_window_counter",
            Algorithm::SlidingLog => "sliding_log",
        }
    }

    /// Reads a name as users write it; `token_bucket` is another name for `gcra`.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        if name == "token_bucket" {
            return Some(Algorithm::Gcra);
        }
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a quota was refused, in words for the person who wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaError(pub String);

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for QuotaError {}

/// `count` per `window_us`, with room for `capacity` at once.
///
/// `rate / unit` is `count / window_us`, reduced where that keeps a bucket's arithmetic exact (see
/// `algorithm::bucket`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    pub algorithm: Algorithm,
    pub count: u64,
    pub window_us: u64,
    /// The most that can be in use at once: the burst for a bucket, else the count.
    pub capacity: u64,
    pub(crate) rate: u64,
    pub(crate) unit: u64,
}

impl Quota {
    pub fn new(
        count: u64,
        window_us: u64,
        burst: Option<u64>,
        algorithm: Option<Algorithm>,
    ) -> Result<Quota, QuotaError> {
        let default = if burst.is_some() { Algorithm::Gcra } else { Algorithm::SlidingWindow };
        let algorithm = algorithm.unwrap_or(default);
        validate(count, window_us, burst, algorithm)?;
        let capacity = burst.unwrap_or(count);
        let (rate, unit) = if u128::from(capacity) * u128::from(window_us) < EXACT_MAX {
            (count, window_us)
        } else {
            let divisor = greatest_common_divisor(count, window_us);
            (count / divisor, window_us / divisor)
        };
        Ok(Quota { algorithm, count, window_us, capacity, rate, unit })
    }

    /// What a bucket drains of its units in a microsecond.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// How many units of a bucket make one token.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// How many hits one group of a sliding window holds.
    #[inline]
    pub fn group_size(&self) -> u64 {
        self.count.div_ceil(SLIDING_WINDOW_GROUPS)
    }

    /// The time the whole capacity takes to come back.
    pub fn full_window_us(&self) -> u64 {
        if self.capacity == self.count {
            return self.window_us;
        }
        let us = (u128::from(self.capacity) * u128::from(self.window_us)).div_ceil(u128::from(self.count));
        u64::try_from(us).unwrap_or(u64::MAX)
    }
}

fn validate(count: u64, window_us: u64, burst: Option<u64>, algorithm: Algorithm) -> Result<(), QuotaError> {
    let fail = |message: String| Err(QuotaError(message));
    if count == 0 {
        return fail("the limit must be at least 1 (to refuse everything, use `action: block`)".into());
    }
    if count > COUNT_MAX {
        return fail(format!("the limit must be at most {COUNT_MAX}, not {count}"));
    }
    if !(WINDOW_US_MIN..=WINDOW_US_MAX).contains(&window_us) {
        return fail("the window must be between 1 millisecond and 366 days".into());
    }
    if let Some(burst) = burst {
        if algorithm != Algorithm::Gcra {
            return fail(format!("`burst` needs the gcra (token_bucket) algorithm, not {algorithm}"));
        }
        if burst == 0 || burst > COUNT_MAX {
            return fail(format!("the burst must be between 1 and {COUNT_MAX}"));
        }
    }
    if algorithm == Algorithm::SlidingLog && count > SLIDING_LOG_COUNT_MAX {
        return fail(format!(
            "sliding_log keeps every hit and takes limits up to {SLIDING_LOG_COUNT_MAX}, not {count}; \
             use sliding_window"
        ));
    }
    if algorithm == Algorithm::SlidingWindowCounter && count > SLIDING_WINDOW_COUNTER_COUNT_MAX {
        return fail(format!(
            "sliding_window_counter takes limits up to {SLIDING_WINDOW_COUNTER_COUNT_MAX}, not {count}; \
             use sliding_window"
        ));
    }
    Ok(())
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_chooses_gcra_and_its_absence_a_sliding_window() {
        assert_eq!(Quota::new(5, 60_000_000, Some(2), None).unwrap().algorithm, Algorithm::Gcra);
        assert_eq!(Quota::new(5, 60_000_000, None, None).unwrap().algorithm, Algorithm::SlidingWindow);
    }

    #[test]
    fn impossible_quotas_are_refused_in_words() {
        for (count, window_us, burst, algorithm, words) in [
            (0, 1_000_000, None, None, "at least 1"),
            (5, 999, None, None, "1 millisecond"),
            (COUNT_MAX + 1, 1_000_000, None, None, "at most"),
            (5, 1_000_000, Some(0), None, "burst"),
            (5, 1_000_000, Some(9), Some(Algorithm::FixedWindow), "burst"),
            (10_001, 60_000_000, None, Some(Algorithm::SlidingLog), "10000"),
        ] {
            let error = Quota::new(count, window_us, burst, algorithm).unwrap_err();
            assert!(error.0.contains(words), "{error}");
        }
    }

    #[test]
    fn a_large_bucket_is_counted_in_reduced_units() {
        let month_us = 30 * 86_400 * 1_000_000;
        let quota = Quota::new(1_000_000, month_us, Some(1_000_000), None).unwrap();
        assert_eq!((quota.rate, quota.unit), (1, month_us / 1_000_000));
    }
}
