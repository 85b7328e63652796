//! After a kill at any moment, the store opens again with every acknowledged commit.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use scheduler::time::Moment;

use super::{Backend, directory};
use crate::store::contract::{Put, Random, Sample, key, key_row, load};
use crate::store::sqlite::open;

/// Gives the child process of this test its directory.
const CHILD: &str = "ORCHESTRATOR_STORE_KILL_TEST";

fn samples(number: u64) -> Vec<Sample> {
    let mut random = Random(number);
    (0..20).map(|_| Sample::job(&mut random)).collect()
}

/// Commits and acknowledges until it is killed.
fn commit_forever(dir: PathBuf) {
    let (mut store, _reads) = open(&dir).unwrap();
    for number in store.last_commit().unwrap() + 1.. {
        let mut changes = scheduler::change::Changes::default();
        samples(number).iter().for_each(|sample| sample.add_to(&mut changes));
        store.put(number, &changes, &[key_row(&number.to_string(), 1)]).unwrap();
        let mut output = std::io::stdout().lock();
        writeln!(output, "committed {number}").unwrap();
        output.flush().unwrap();
    }
}

#[test]
fn every_acknowledged_commit_survives_a_kill() {
    if let Some(dir) = std::env::var_os(CHILD) {
        commit_forever(dir.into());
    }
    let directory = directory();
    let mut acknowledged = 0;
    for round in 1..=5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("store::sqlite::tests::kill::every_acknowledged_commit_survives_a_kill")
            .env(CHILD, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut numbers = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("committed ")?.parse::<u64>().ok());
        acknowledged = numbers.by_ref().nth(10 * round).expect("the child continues to commit");
        child.kill().unwrap();
        acknowledged = numbers.last().unwrap_or(acknowledged);
        child.wait().unwrap();
        let (mut store, reads) = directory.open();
        let last = store.last_commit().unwrap();
        assert!(last == acknowledged || last == acknowledged + 1, "{last} {acknowledged}");
        for number in 1..=last {
            let key = store.idempotency(&key(&number.to_string()), Moment(0)).unwrap();
            assert_eq!(key, Some(key_row(&number.to_string(), 1)));
            for sample in samples(number) {
                assert!(reads.job(sample.id()).unwrap().is_some());
            }
        }
        assert_eq!(load(store.as_mut()).0.len() as u64, 20 * last);
        acknowledged = last;
    }
    assert!(acknowledged >= 150, "{acknowledged}");
}
