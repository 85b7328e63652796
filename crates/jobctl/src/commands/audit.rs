//! `jobctl audit …`: lists the audit log, and verifies its chain.

use anyhow::Result;
use api_client::AuditQuery;
use api_types::audit::AuditRecord;
use sha2::{Digest, Sha256};

use super::{Exit, Session};
use crate::cli::{AuditCommand, AuditListArgs};
use crate::clock;
use crate::exit::UsageError;
use crate::output::Layout;
use crate::pages::collect;

/// Records of a page when all of them are read.
const PAGE: u32 = 1000;

pub(super) async fn run(session: &Session, command: &AuditCommand) -> Result<Exit> {
    match command {
        AuditCommand::List(args) => list(session, args).await,
        AuditCommand::Verify { expect } => verify(session, expect).await,
    }
}

async fn list(session: &Session, args: &AuditListArgs) -> Result<Exit> {
    let query = AuditQuery {
        user: args.user.clone(),
        operation: args.operation.clone(),
        since: args.since(clock::now()),
        reverse: true,
        ..AuditQuery::default()
    };
    let records = collect(Some(args.limit), async |rows, token| {
        let query = AuditQuery { limit: Some(rows), next_token: token, ..query.clone() };
        session.client.list_audit(&query).await.map(|page| (page.records, page.next_token))
    })
    .await?;
    session.out.list(args.output.format, &Layout::of(args.output.format), &records.items)?;
    Ok(Exit::Done)
}

async fn verify(session: &Session, expect: &[String]) -> Result<Exit> {
    let mut chain = Verification::expecting(expect)?;
    let mut query = AuditQuery { limit: Some(PAGE), ..AuditQuery::default() };
    loop {
        let page = session.client.list_audit(&query).await?;
        for record in &page.records {
            chain.follow(record).map_err(anyhow::Error::msg)?;
        }
        if page.next_token.is_empty() {
            break;
        }
        query.next_token = Some(page.next_token);
    }
    let summary = chain.end().map_err(anyhow::Error::msg)?;
    session.out.line(&summary)?;
    Ok(Exit::Done)
}

/// The chain as far as it was followed.
#[derive(Debug, Default)]
struct Verification {
    first: Option<u64>,
    last: Option<(u64, String)>,
    /// Records that an earlier verification saw, and that were not met yet.
    expected: Vec<(u64, String)>,
}

// === impl Verification ===

impl Verification {
    fn expecting(texts: &[String]) -> Result<Self> {
        let read = |text: &String| {
            let (sequence, hash) = text.split_once(':')?;
            Some((sequence.parse().ok()?, hash.to_ascii_lowercase()))
        };
        let mut expected = Vec::new();
        for text in texts {
            let wrong = || UsageError::new(format!("'{text}' is not SEQUENCE:HASH"));
            expected.push(read(text).ok_or_else(wrong)?);
        }
        Ok(Self { expected, ..Self::default() })
    }

    /// The next record; the reason if it does not follow.
    fn follow(&mut self, record: &AuditRecord) -> Result<(), String> {
        let AuditRecord { sequence, previous, hash, .. } = record;
        let digest = Sha256::digest(record.sealed_text());
        let sealed: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        if sealed != *hash {
            return Err(format!("record {sequence} was changed: its hash does not match it"));
        }
        match &self.last {
            Some((last, _)) if *sequence != last + 1 => {
                return Err(format!("records after {last} and before {sequence} were removed"));
            }
            Some((last, of_last)) if previous != of_last => {
                return Err(format!("record {sequence} does not follow record {last}"));
            }
            // Older ones go with time; the first of all follows nothing.
            None if *sequence == 1 && !previous.is_empty() => {
                return Err("record 1 is not the first".to_owned());
            }
            Some(_) | None => {}
        }
        if let Some((_, expected)) = self.expected.iter().find(|(known, _)| known == sequence)
            && expected != hash
        {
            return Err(format!("record {sequence} is not the one that was seen before"));
        }
        self.expected.retain(|(known, _)| known != sequence);
        self.first.get_or_insert(*sequence);
        self.last = Some((*sequence, hash.clone()));
        Ok(())
    }

    fn end(self) -> Result<String, String> {
        let first = self.first.unwrap_or_default();
        if let Some((missing, _)) = self.expected.iter().find(|(known, _)| *known >= first) {
            return Err(format!("record {missing}, which was seen before, is not there"));
        }
        Ok(match self.last {
            Some((last, hash)) => format!("records {first} to {last} are intact; {last}:{hash}"),
            None => "the audit log is empty".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use api_types::audit::AuditOutcome;

    use super::*;

    fn chain(length: u64) -> Vec<AuditRecord> {
        let mut records: Vec<AuditRecord> = Vec::new();
        for sequence in 1..=length {
            let mut record = AuditRecord {
                sequence,
                time: "2026-01-02T03:04:05.000000000Z".to_owned(),
                user: "it".to_owned(),
                token_id: "t".to_owned(),
                address: "::1".to_owned(),
                operation: "stopJob".to_owned(),
                object: format!("j-{sequence}"),
                request_id: "r".to_owned(),
                outcome: AuditOutcome::Done,
                count: 1,
                previous: records.last().map(|last| last.hash.clone()).unwrap_or_default(),
                hash: String::new(),
            };
            seal(&mut record);
            records.push(record);
        }
        records
    }

    fn seal(record: &mut AuditRecord) {
        let digest = Sha256::digest(record.sealed_text());
        record.hash = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    }

    fn verified(records: &[AuditRecord], expect: &[String]) -> Result<String, String> {
        let mut chain = Verification::expecting(expect).unwrap();
        for record in records {
            chain.follow(record)?;
        }
        chain.end()
    }

    #[test]
    fn an_intact_chain_is_told_by_its_end() {
        let records = chain(5);
        let seen = format!("5:{}", records[4].hash);
        assert_eq!(verified(&records, &[]).unwrap(), format!("records 1 to 5 are intact; {seen}"));
        assert!(verified(&records, &[seen]).is_ok());
        // The oldest go with time, and what was seen of them.
        let old = format!("1:{}", records[0].hash);
        assert!(verified(&records[2..], &[old]).is_ok());
        assert_eq!(verified(&[], &[]).unwrap(), "the audit log is empty");
    }

    #[test]
    fn what_was_changed_or_removed_is_found() {
        let broken = |change: fn(&mut Vec<AuditRecord>)| {
            let mut records = chain(5);
            change(&mut records);
            verified(&records, &[]).unwrap_err()
        };
        assert!(broken(|it| it[2].object.push('x')).contains("record 3 was changed"));
        assert!(broken(|it| drop(it.remove(2))).contains("after 2 and before 4 were removed"));
        let resealed = broken(|it| {
            it[2].user.push('x');
            seal(&mut it[2]);
        });
        assert!(resealed.contains("record 4 does not follow record 3"), "{resealed}");

        // Who makes the whole chain anew is found by what was seen before, and so is a cut end.
        let seen = format!("4:{}", chain(5)[3].hash);
        let mut anew = chain(5);
        for at in 2..5 {
            let previous = anew[at - 1].hash.clone();
            anew[at].previous = previous;
            anew[at].user = "other".to_owned();
            seal(&mut anew[at]);
        }
        assert!(verified(&anew, &[]).is_ok());
        let found = verified(&anew, std::slice::from_ref(&seen)).unwrap_err();
        assert!(found.contains("record 4 is not the one that was seen before"), "{found}");
        let cut = verified(&chain(3), &[seen]).unwrap_err();
        assert!(cut.contains("record 4, which was seen before, is not there"), "{cut}");
        assert!(Verification::expecting(&["4".to_owned()]).is_err());
    }
}
