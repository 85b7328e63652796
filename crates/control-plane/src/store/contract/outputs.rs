//! What executions leave behind: their output, and how much of it is kept.

use api_types::curve::UsageCurve;
use api_types::engine::PublisherType;
use api_types::execution::{ComputeState, PublishedResult, RunOutput};
use api_types::log::{LogData, MAX_TAIL_BYTES, OutputTail, StreamTail};
use api_types::usage::Usage;
use api_types::{ExecutionId, Timestamp};
use scheduler::change::{Changes, OutputRow};
use scheduler::time::Moment;

use super::Backend;
use super::samples::{Put, Random, Sample};
use crate::store::{MAX_TAILS_BYTES, Retention};

pub(super) fn output(id: ExecutionId, text: &str) -> OutputRow {
    OutputRow {
        id,
        run_output: Some(RunOutput {
            stdout: text.to_owned(),
            stdout_truncated: true,
            stderr: "warning".to_owned(),
            stderr_truncated: false,
            stdout_tail: format!("{text}, the end"),
            stdout_bytes: 5000,
            stderr_tail: String::new(),
            stderr_bytes: 0,
            exit_code: -9,
            runner_error: "was killed".to_owned(),
            omitted: vec!["out/pipe: a named pipe".to_owned()],
        }),
        tail: None,
        usage: Some(Usage { cpu_seconds: 0.25, memory_peak: 1 << 40, ..Usage::default() }),
        curve: Some(curve()),
        published_result: Some(published(text)),
    }
}

fn curve() -> UsageCurve {
    UsageCurve {
        begin_time: Timestamp(1_700_000_000_000_000_000),
        end_time: Timestamp(1_700_000_003_000_000_000),
        step: 2,
        cpu: vec![0.125, 3.0],
        memory: vec![1 << 30, 0],
    }
}

pub(super) fn published(text: &str) -> PublishedResult {
    let mut params = api_types::engine::Params::new();
    params.insert("Key".to_owned(), text.into());
    PublishedResult { publisher_type: PublisherType::S3, params }
}

/// As long as a tail may be; which one it is shows in its offset.
fn tail(number: u64) -> OutputTail {
    let stdout = vec![b'x'; MAX_TAIL_BYTES - 2];
    OutputTail {
        stdout: StreamTail { offset: number, data: LogData::from(&stdout[..]) },
        stderr: StreamTail { offset: 0, data: LogData::from(&b"\xff\0"[..]) },
    }
}

pub(in crate::store) fn the_latest_tails_of_a_job_stay_and_go_with_it(backend: &impl Backend) {
    let mut random = Random(45);
    let (mut store, reads) = backend.open();
    let (mut sample, other) = (Sample::job(&mut random), Sample::job(&mut random));
    sample.row.state = api_types::job::JobStateType::Failed;
    (sample.row.live, sample.row.ended_at) = (false, Some(Moment(1)));
    let mut changes = sample.changes();
    other.add_to(&mut changes);
    let kept = MAX_TAILS_BYTES / MAX_TAIL_BYTES as u64;
    let rows: Vec<_> = (0..kept + 10)
        .map(|index| {
            let mut row = sample.execution(&mut random, u32::try_from(index).unwrap());
            row.compute = ComputeState::Failed;
            row
        })
        .collect();
    changes.executions.extend(rows.iter().map(|row| (row.id, row.clone())));
    let apart = other.execution(&mut random, 0);
    changes.executions.insert(apart.id, apart.clone());
    store.put(1, &changes, &[]).unwrap();

    let mut commit = 1;
    let mut put = |id, number| {
        commit += 1;
        let mut changes = Changes::default();
        changes.outputs.push(OutputRow { tail: Some(tail(number)), ..output(id, "begin") });
        store.put(commit, &changes, &[]).unwrap();
    };
    put(apart.id, 77);
    for (number, row) in (0..).zip(&rows) {
        put(row.id, number);
    }
    // A repeated report takes no more room.
    put(rows[rows.len() - 1].id, kept + 9);
    for (number, row) in (0..).zip(&rows) {
        let expected = (number >= 10).then(|| tail(number));
        assert!(reads.output_tail(row.id).unwrap() == expected, "{number}");
    }
    assert!(reads.output_tail(apart.id).unwrap() == Some(tail(77)));

    let curves = reads.usage_curves(sample.id(), 3).unwrap();
    let indexes: Vec<_> = curves.iter().map(|stored| stored.index).collect();
    assert_eq!((indexes, &curves[0].curve), (vec![0, 1, 2], &curve()));
    assert_eq!(reads.usage_curve(rows[0].id).unwrap(), Some(curve()));

    let retention = Retention { age: None, count: Some(0) };
    while store.prune(Moment(2), &retention, 100).unwrap().more {}
    assert!(rows.iter().all(|row| reads.output_tail(row.id).unwrap().is_none()));
    assert!(rows.iter().all(|row| reads.usage_curve(row.id).unwrap().is_none()));
    assert!(reads.output_tail(apart.id).unwrap() == Some(tail(77)), "its job is live");
}
