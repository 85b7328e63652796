//! Limits of one program: memory by its limit, CPU time by its share.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use wasmtime::ResourceLimiter;

/// Elements of all tables of a program. Each takes some bytes of the node's memory that the memory
/// limit does not count; ordinary programs have thousands.
const MAX_TABLE_ELEMENTS: usize = 1 << 20;

/// Interval at which a program checks its CPU share; each check costs well under a microsecond.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// The CPU share holds over any period of this length.
const PERIOD: Duration = Duration::from_millis(100);

/// A program runs on one thread and cannot use more than this.
const WHOLE_CORE_MILLIS: u64 = 1000;

/// The limit on all memories of one program together.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    limit_bytes: usize,
    used_bytes: usize,
    table_elements: usize,
    /// Whether the program requested more than its limit; its reaction to the refusal is its own
    /// affair.
    pub(crate) was_refused: bool,
}

/// Keeps a program within its CPU share by making it sleep.
#[derive(Debug)]
pub(crate) struct Throttle {
    cpu_millis: u64,
    since: Mark,
}

/// The readings of the clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    now: Instant,
    /// CPU time of the thread that runs the program.
    used: Duration,
}

// === impl MemoryLimit ===

impl MemoryLimit {
    /// 0 means no limit.
    pub(crate) fn new(limit_bytes: u64) -> Self {
        let limit_bytes = match usize::try_from(limit_bytes) {
            Ok(0) | Err(_) => usize::MAX,
            Ok(limit_bytes) => limit_bytes,
        };
        Self { limit_bytes, used_bytes: 0, table_elements: 0, was_refused: false }
    }
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let used_bytes = self.used_bytes.saturating_add(desired.saturating_sub(current));
        if used_bytes > self.limit_bytes {
            self.was_refused = true;
            return Ok(false);
        }
        self.used_bytes = used_bytes;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let elements = self.table_elements.saturating_add(desired.saturating_sub(current));
        if elements > MAX_TABLE_ELEMENTS {
            return Ok(false);
        }
        self.table_elements = elements;
        Ok(true)
    }
}

// === impl Throttle ===

impl Throttle {
    pub(crate) fn new(cpu_millis: u64, start: Mark) -> Self {
        Self { cpu_millis, since: start }
    }

    /// Whether the share is less than the program could use.
    pub(crate) fn is_needed(&self) -> bool {
        (1..WHOLE_CORE_MILLIS).contains(&self.cpu_millis)
    }

    /// How long the program has to sleep now. A program that uses up its share of a period early
    /// sleeps until the end of the period in which that use would have been within its share.
    pub(crate) fn pause(&mut self, at: Mark) -> Option<Duration> {
        if !self.is_needed() {
            return None;
        }
        let share = self.cpu_millis as f64 / WHOLE_CORE_MILLIS as f64;
        let used = at.used.saturating_sub(self.since.used);
        let elapsed = at.now.saturating_duration_since(self.since.now);
        if used >= PERIOD.mul_f64(share) {
            let pause = used.div_f64(share).saturating_sub(elapsed);
            self.since = Mark { now: at.now + pause, used: at.used };
            return (!pause.is_zero()).then_some(pause);
        }
        if elapsed >= PERIOD {
            self.since = at;
        }
        None
    }
}

// === impl Mark ===

impl Mark {
    /// The readings for the calling thread.
    pub(crate) fn now() -> Self {
        let used = clock_gettime(ClockId::ThreadCPUTime);
        let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
        let nanoseconds = u32::try_from(used.tv_nsec).unwrap_or(0);
        Self { now: Instant::now(), used: Duration::new(seconds, nanoseconds) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn all_memories_of_a_program_count_together() {
        let mut limit = MemoryLimit::new(3 << 20);
        assert!(limit.memory_growing(0, 2 * MIB, None).unwrap());
        assert!(!limit.memory_growing(0, 2 * MIB, None).unwrap());
        assert!(limit.was_refused);
        // What was refused is not counted.
        assert!(limit.memory_growing(2 * MIB, 3 * MIB, None).unwrap());
        assert!(!limit.memory_growing(3 * MIB, 3 * MIB + 1, None).unwrap());
    }

    #[test]
    fn without_a_limit_memory_is_bounded_by_the_program_alone() {
        let mut limit = MemoryLimit::new(0);
        assert!(limit.memory_growing(0, 4096 * MIB, None).unwrap());
        assert!(!limit.was_refused);
    }

    #[test]
    fn tables_are_bounded() {
        let mut limit = MemoryLimit::new(0);
        assert!(limit.table_growing(0, MAX_TABLE_ELEMENTS, None).unwrap());
        assert!(!limit.table_growing(0, 1, None).unwrap());
    }

    /// A program that is always ready to run, for this many ticks of ten milliseconds.
    fn share_of(cpu_millis: u64, ticks: u32) -> f64 {
        let start = Mark { now: Instant::now(), used: Duration::ZERO };
        let mut throttle = Throttle::new(cpu_millis, start);
        let mut at = start;
        for _ in 0..ticks {
            at.now += Duration::from_millis(10);
            at.used += Duration::from_millis(10);
            at.now += throttle.pause(at).unwrap_or_default();
        }
        at.used.as_secs_f64() / at.now.duration_since(start.now).as_secs_f64()
    }

    #[test]
    fn a_program_gets_its_cpu_share_and_no_more() {
        for (cpu_millis, share) in [(500, 0.5), (250, 0.25), (100, 0.1), (10, 0.01)] {
            let got = share_of(cpu_millis, 1000);
            assert!((got / share - 1.0).abs() < 0.05, "{cpu_millis}: {got}");
        }
        assert!(share_of(1000, 100) > 0.99 && share_of(4000, 100) > 0.99);
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let start = Mark { now: Instant::now(), used: Duration::ZERO };
        let mut throttle = Throttle::new(500, start);
        let idle = Mark { now: start.now + Duration::from_secs(3600), used: Duration::ZERO };
        assert_eq!(throttle.pause(idle), None);
        let busy = Duration::from_millis(50);
        let at = Mark { now: idle.now + busy, used: busy };
        assert_eq!(throttle.pause(at), Some(busy));
    }
}
