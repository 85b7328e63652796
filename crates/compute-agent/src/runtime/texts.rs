//! What users read of the failures of engines, archives and output, as a table.

use std::io;

use api_types::rows;
use api_types::testing::flaw;

use super::*;
use crate::data::archive::ArchiveError;
use crate::data::logs::OutputError;

fn text() -> String {
    "text".to_owned()
}

fn engines() -> Vec<String> {
    let rows = rows!(ExecutorError {
        ExecutorError::Unreachable { .. } => [
            ExecutorError::Unreachable { engine: "docker", reason: text() },
        ],
        ExecutorError::Gone => [ExecutorError::Gone],
        ExecutorError::NoSuchImage { .. } => [
            ExecutorError::NoSuchImage { image: "acme/render".to_owned(), reason: text() },
        ],
        ExecutorError::NoSuchPath { .. } => [
            ExecutorError::NoSuchPath { path: "/results".to_owned() },
        ],
        ExecutorError::OutputLost { .. } => [ExecutorError::OutputLost { reason: text() }],
        ExecutorError::Refused { .. } => [
            ExecutorError::Refused { reason: text(), formerly: FailureCause::Task },
        ],
        ExecutorError::Cancelled => [ExecutorError::Cancelled],
        ExecutorError::Failed(_) => [ExecutorError::Failed(Failure::task("the task's own"))],
    });
    rows.into_iter().map(|(_, error)| error.to_string()).collect()
}

fn archives() -> Vec<String> {
    let path = || "a/b".to_owned();
    let rows = rows!(ArchiveError {
        ArchiveError::TooManyEntries => [ArchiveError::TooManyEntries],
        ArchiveError::TooLarge { .. } => [
            ArchiveError::TooLarge { limit_bytes: 1000, least_bytes: 1001 },
        ],
        ArchiveError::Escape { .. } => [ArchiveError::Escape { path: path() }],
        ArchiveError::Unusable { .. } => [
            ArchiveError::Unusable { path: path(), reason: "its name is too long" },
        ],
        ArchiveError::TooDeep => [ArchiveError::TooDeep],
        ArchiveError::Io(_) => [ArchiveError::Io(io::Error::other("unexpected end of file"))],
    });
    rows.into_iter().map(|(_, error)| error.to_string()).collect()
}

fn outputs() -> Vec<String> {
    let rows = rows!(OutputError {
        OutputError::Absent => [OutputError::Absent],
        OutputError::Executor(_) => [OutputError::Executor(ExecutorError::Gone)],
        OutputError::Disk(_) => [OutputError::Disk(io::Error::other("Os { code: 5 }"))],
        OutputError::Stopping => [OutputError::Stopping],
    });
    rows.into_iter().map(|(_, error)| error.to_string()).collect()
}

#[test]
fn every_failure_has_words_for_its_user() {
    let said: Vec<_> = [engines(), archives(), outputs()].into_iter().flatten().collect();
    assert!(said.iter().all(|text| flaw(text).is_none()), "{said:?}");
    let expected = [
        "docker does not answer: text",
        "its container was removed by someone else",
        "image 'acme/render' was removed while its container was made: text",
        "there is nothing at '/results'",
        "cannot read the output of this execution: text",
        "text",
        "cancelled",
        "the task's own",
        "it has more than 100000 entries",
        "it is larger than 1000 bytes when unpacked",
        "its entry 'a/b' leads out of the archive",
        "its entry 'a/b' cannot be a file here: its name is too long",
        "an entry is nested deeper than 128 directories, or its path has more than 3000 bytes",
        "unexpected end of file",
        "the node has no record of this execution",
        "its container was removed by someone else",
        "cannot read the output on the node's disk",
        "the agent is stopping",
    ];
    assert_eq!(said, expected);
}
