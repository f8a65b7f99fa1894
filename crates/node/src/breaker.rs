//! Stops asking a shard that does not answer. One for each shard, never a global one. Time is an argument.

use std::time::{Duration, Instant};

/// What is looked back at.
const WINDOW: Duration = Duration::from_secs(1);
/// Fewer errors than this never open it, whatever part of the calls they are.
const ERRORS_MIN: u64 = 20;
/// One call in so many failing opens it.
const CALLS_PER_ERROR: u64 = 100;
/// The first probe after opening; each that fails doubles the wait.
const PROBE_AFTER_MIN: Duration = Duration::from_millis(100);
const PROBE_AFTER_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Closed,
    /// Nothing is asked before `probe_at`; then one probe is.
    Open {
        probe_at: Instant,
        wait: Duration,
    },
}

#[derive(Debug)]
pub struct Breaker {
    state: State,
    since: Instant,
    calls: u64,
    errors: u64,
}

impl Breaker {
    pub fn new(now: Instant) -> Self {
        Self { state: State::Closed, since: now, calls: 0, errors: 0 }
    }

    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// Counts what became of calls; true when that opens it.
    pub fn record(&mut self, calls: u64, errors: u64, now: Instant) -> bool {
        if !self.is_closed() {
            return false;
        }
        if now.saturating_duration_since(self.since) >= WINDOW {
            (self.since, self.calls, self.errors) = (now, 0, 0);
        }
        self.calls += calls;
        self.errors += errors;
        let opens = errors > 0 && self.errors >= ERRORS_MIN && self.errors * CALLS_PER_ERROR >= self.calls;
        if opens { self.open(now) } else { false }
    }

    /// Opens at once: nobody listens there. True when it was closed.
    pub fn open(&mut self, now: Instant) -> bool {
        if !self.is_closed() {
            return false;
        }
        self.state = State::Open { probe_at: now + PROBE_AFTER_MIN, wait: PROBE_AFTER_MIN };
        true
    }

    /// A probe was not answered.
    pub fn probe_failed(&mut self, now: Instant) {
        if let State::Open { wait, .. } = self.state {
            let wait = (wait * 2).min(PROBE_AFTER_MAX);
            self.state = State::Open { probe_at: now + wait, wait };
        }
    }

    /// A probe was answered in time; true when it was open.
    pub fn close(&mut self, now: Instant) -> bool {
        let was_open = !self.is_closed();
        (self.state, self.since, self.calls, self.errors) = (State::Closed, now, 0, 0);
        was_open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_errors_that_are_one_in_a_hundred_open_it() {
        let now = Instant::now();
        let mut breaker = Breaker::new(now);
        assert!(!breaker.record(1_900, 0, now));
        assert!(!breaker.record(19, 19, now));
        assert!(breaker.record(1, 1, now), "20 of 1,920");
        let mut busy = Breaker::new(now);
        busy.record(10_000, 0, now);
        assert!(!busy.record(20, 20, now), "20 of 10,020 is less than one in a hundred");
    }

    #[test]
    fn a_second_later_it_starts_counting_anew() {
        let now = Instant::now();
        let mut breaker = Breaker::new(now);
        breaker.record(19, 19, now);
        assert!(!breaker.record(19, 19, now + WINDOW));
        assert!(breaker.record(1, 1, now + WINDOW));
    }

    #[test]
    fn probes_back_off_to_half_a_minute_and_success_closes() {
        let now = Instant::now();
        let mut breaker = Breaker::new(now);
        assert!(breaker.open(now));
        assert!(!breaker.open(now), "opened once");
        for _ in 0..20 {
            breaker.probe_failed(now);
        }
        assert_eq!(breaker.state(), State::Open { probe_at: now + PROBE_AFTER_MAX, wait: PROBE_AFTER_MAX });
        assert!(breaker.close(now));
        assert!(breaker.is_closed());
        breaker.open(now);
        assert_eq!(breaker.state(), State::Open { probe_at: now + PROBE_AFTER_MIN, wait: PROBE_AFTER_MIN });
    }
}
