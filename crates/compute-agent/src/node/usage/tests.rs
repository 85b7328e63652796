//! Samples, and what is kept of them.

use super::*;
use crate::host::data_dir::DataDir;
use crate::testing::execution_id;

fn reading(cpu_millis: u64, memory_bytes: u64, memory_peak_bytes: Option<u64>) -> Reading {
    Reading { cpu: Duration::from_millis(cpu_millis), memory_bytes, memory_peak_bytes }
}

#[test]
fn the_rate_is_that_since_the_sample_before() {
    let begin = Instant::now();
    let first = Sample::next(None, reading(100, 5, None), begin, Timestamp(1));
    assert_eq!((first.usage.cpu_seconds, first.usage.cpu), (0.1, 0.0));
    let at = begin + Duration::from_secs(2);
    let second = Sample::next(Some(first), reading(1100, 5, None), at, Timestamp(2));
    assert_eq!(second.usage.cpu, 0.5);
    let soon = at + SHORTEST_RATE / 2;
    let third = Sample::next(Some(second), reading(1150, 5, None), soon, Timestamp(3));
    assert_eq!((third.usage.cpu, third.usage.cpu_seconds), (0.5, 1.15));
}

#[test]
fn a_peak_without_the_kernels_help_is_that_of_the_samples() {
    let now = Instant::now();
    let first = Sample::next(None, reading(1, 70, None), now, Timestamp(1));
    let second = Sample::next(Some(first), reading(2, 20, None), now, Timestamp(2));
    assert_eq!((second.usage.memory, second.usage.memory_peak), (20, 70));
    let third = Sample::next(Some(second), reading(2, 20, Some(90)), now, Timestamp(3));
    assert_eq!(third.usage.memory_peak, 90);
}

#[test]
fn nothing_falls_when_an_earlier_agent_has_seen_more() {
    let usage = Usage { cpu_seconds: 9.0, memory_peak: 80, ..Usage::default() };
    let earlier = Sample { usage, taken_at: None };
    let next = Sample::next(Some(earlier), reading(1, 2, None), Instant::now(), Timestamp(1));
    assert_eq!((next.usage.cpu_seconds, next.usage.memory_peak), (9.0, 80));
}

#[test]
fn a_sample_is_read_back_and_a_damaged_one_is_none() {
    let root = tempfile::tempdir().unwrap();
    let dir = DataDir::open(root.path()).unwrap().executions().for_execution(execution_id(1));
    assert_eq!(read(&dir), None);
    let usage = Usage { cpu_seconds: 1.5, disk: Some(7), ..Usage::default() };
    let mut recorder = Recorder::begin(Timestamp(5), 0.0);
    recorder.add(Duration::from_secs(3), 1.5, 9);
    for curve in [None, recorder.curve()] {
        let kept = UsageRecord { usage, curve };
        write(&dir, &kept).unwrap();
        assert_eq!(read(&dir), Some(kept));
    }
    fs::write(dir.usage(), b"{").unwrap();
    assert_eq!(read(&dir), None);
}
