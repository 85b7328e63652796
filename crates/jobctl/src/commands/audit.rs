//! `jobctl audit …`: lists the audit log, and verifies its chains.

use std::time::Duration;

use anyhow::Result;
use api_client::AuditQuery;
use api_types::Timestamp;
use api_types::audit::{AuditChain, AuditRecord};
use sha2::{Digest, Sha256};

use crate::cli::{AuditCommand, AuditListArgs};
use crate::clock;
use crate::exit::{Exit, UsageError};
use crate::output::{Layout, note};
use crate::pages::collect;
use crate::session::Session;

/// Below this, a chain that has lost its beginning is warned of.
const YEAR: Duration = Duration::from_secs(365 * 86_400);

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
        chain: Some(args.chain),
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
    session.out.list(
        args.output.format,
        &Layout::for_format(args.output.format),
        &records.items,
    )?;
    Ok(Exit::Done)
}

async fn verify(session: &Session, expect: &[String]) -> Result<Exit> {
    let mut chains = Verification::expecting(expect)?;
    let now = clock::now();
    for (chain, verification) in &mut chains {
        let mut query =
            AuditQuery { chain: Some(*chain), limit: Some(PAGE), ..AuditQuery::default() };
        loop {
            let page = session.client.list_audit(&query).await?;
            for record in &page.records {
                let followed = verification.follow(record);
                followed.map_err(|reason| anyhow::anyhow!("{chain}: {reason}"))?;
            }
            if page.next_token.is_empty() {
                break;
            }
            query.next_token = Some(page.next_token);
        }
    }
    for (chain, verification) in chains {
        let warning = verification.warning(now);
        let summary = verification.end(chain);
        session.out.line(&summary.map_err(|reason| anyhow::anyhow!("{chain}: {reason}"))?)?;
        if let Some(warning) = warning {
            note(&format!("warning: {chain}: {warning}"));
        }
    }
    Ok(Exit::Done)
}

/// A chain as far as it was followed.
#[derive(Debug, Default)]
struct Verification {
    /// The sequence and the time of the oldest record.
    first: Option<(u64, String)>,
    last: Option<(u64, String)>,
    /// Records that an earlier verification saw, and that were not met yet.
    expected: Vec<(u64, String)>,
}

// === impl Verification ===

impl Verification {
    /// One of each chain. A text without a chain is of that of changes, the only one of older releases.
    fn expecting(texts: &[String]) -> Result<[(AuditChain, Self); 2]> {
        let read = |text: &String| {
            let words: Vec<&str> = text.split(':').collect();
            let (chain, sequence, hash) = match words[..] {
                [sequence, hash] => (AuditChain::first(), sequence, hash),
                [chain, sequence, hash] => (chain.parse().ok()?, sequence, hash),
                _ => return None,
            };
            Some((chain, (sequence.parse().ok()?, hash.to_ascii_lowercase())))
        };
        let mut chains =
            [AuditChain::Changes, AuditChain::Rest].map(|chain| (chain, Self::default()));
        for text in texts {
            let wrong = || UsageError::new(format!("'{text}' is not CHAIN:SEQUENCE:HASH"));
            let (of, expected) = read(text).ok_or_else(wrong)?;
            for (chain, verification) in &mut chains {
                if *chain == of {
                    verification.expected.push(expected.clone());
                }
            }
        }
        Ok(chains)
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
        self.first.get_or_insert_with(|| (*sequence, record.time.clone()));
        self.last = Some((*sequence, hash.clone()));
        Ok(())
    }

    /// Why the chain may have lost what one looks for.
    fn warning(&self, now: Timestamp) -> Option<String> {
        let (first, time) = self.first.as_ref().filter(|(first, _)| *first > 1)?;
        let since = Timestamp::parse(time)?;
        (now.since(since) < YEAR).then(|| {
            format!("records before {first} are gone, so it reaches back less than a year")
        })
    }

    /// The head of the chain, and since when it is complete.
    fn end(self, chain: AuditChain) -> Result<String, String> {
        let (first, time) = self.first.unwrap_or_default();
        if let Some((missing, _)) = self.expected.iter().find(|(known, _)| *known >= first) {
            return Err(format!("record {missing}, which was seen before, is not there"));
        }
        let since = if first == 1 { format!("its beginning, {time}") } else { time };
        Ok(match self.last {
            Some((last, hash)) => format!(
                "{chain}: records {first} to {last} are intact, complete since {since}; \
                 {chain}:{last}:{hash}"
            ),
            None => format!("{chain}: there is no record"),
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
                chain: AuditChain::Rest,
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

    fn followed(records: &[AuditRecord], expect: &[String]) -> Result<Verification, String> {
        let [_, (_, mut chain)] = Verification::expecting(expect).unwrap();
        for record in records {
            chain.follow(record)?;
        }
        Ok(chain)
    }

    fn verified(records: &[AuditRecord], expect: &[String]) -> Result<String, String> {
        followed(records, expect)?.end(AuditChain::Rest)
    }

    #[test]
    fn an_intact_chain_is_told_by_its_end() {
        let records = chain(5);
        let seen = format!("rest:5:{}", records[4].hash);
        let time = &records[0].time;
        assert_eq!(
            verified(&records, &[]).unwrap(),
            format!(
                "rest: records 1 to 5 are intact, complete since its beginning, {time}; {seen}"
            )
        );
        assert!(verified(&records, &[seen]).is_ok());
        // The oldest go with time, and what was seen of them.
        let old = format!("rest:1:{}", records[0].hash);
        let later = verified(&records[2..], &[old]).unwrap();
        assert!(later.contains(&format!("complete since {time}; rest:5:")), "{later}");
        assert_eq!(verified(&[], &[]).unwrap(), "rest: there is no record");
        // What was seen of one chain is not expected of the other.
        assert!(verified(&records, &[format!("5:{}", "0".repeat(64))]).is_ok());
    }

    #[test]
    fn a_chain_that_reaches_back_less_than_a_year_is_warned_of() {
        let records = chain(5);
        let time = Timestamp::parse(&records[0].time).unwrap();
        let warned = |records: &[AuditRecord], now| followed(records, &[]).unwrap().warning(now);
        let (soon, late) = (time + YEAR / 2, time + YEAR * 2);
        assert!(warned(&records[2..], soon).unwrap().contains("before 3 are gone"));
        assert_eq!(warned(&records[2..], late), None);
        // Whatever its age, nothing is missing.
        assert_eq!(warned(&records, soon), None);
        assert_eq!(warned(&[], soon), None);
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
        let seen = format!("rest:4:{}", chain(5)[3].hash);
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
        assert!(
            ["4", "other:4:0", "rest:x:0", "rest:4:0:0"]
                .iter()
                .all(|text| Verification::expecting(&[(*text).to_owned()]).is_err())
        );
    }
}
