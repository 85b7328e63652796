//! Tokens that are made by tokens: how long they may last, and what ends with them.
//!
//! A token that expires cannot make one that outlives it, or its expiry would mean nothing. A person
//! who signed in at an issuer is the parent instead of the token of the day, so a machine's token may
//! outlast that. Revoking a token leaves its descendants valid unless the caller says otherwise: the
//! first token is revoked after the set-up, and everything else descends from it.

use std::time::Duration;

use api_types::Timestamp;
use control_plane::records::{Record, RecordKey, RecordKind, RecordWrite};

use super::token::StoredToken;
use crate::records::Published;

/// The longest life of a token that a signed-in person makes: a quarter, after which the person
/// decides again whether it is still needed. No rule of the issuer applies to it any more.
pub(crate) const OF_A_PERSON: Duration = Duration::from_hours(90 * 24);

/// The most generations of tokens. Beyond, a token is refused: its record has the IDs of them all.
pub(crate) const MAX_GENERATIONS: usize = 64;

/// What a token that another one makes has from it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Lineage {
    /// The token that made it, the one that made that, and so on.
    pub(crate) ancestors: Vec<String>,
    /// The person with whose token it began.
    pub(crate) person: Option<String>,
    /// When it ends at the latest.
    pub(crate) latest_end: Option<Timestamp>,
}

/// Whose token, among several, a text may mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoPerson {
    /// No person has it.
    Unknown,
    /// Several people's, who are named.
    Ambiguous(Vec<String>),
}

// === impl Lineage ===

impl Lineage {
    /// Of what this token makes now.
    pub(crate) fn of_child(id: &str, parent: &StoredToken, now: Timestamp) -> Self {
        let ancestors = std::iter::once(id.to_owned()).chain(parent.ancestors.iter().cloned());
        let latest_end = match parent.subject {
            Some(_) => Some(now + OF_A_PERSON),
            None => parent.expire_time,
        };
        let person = parent.subject.clone().or_else(|| parent.person.clone());
        Self { ancestors: ancestors.collect(), person, latest_end }
    }
}

/// The tokens that this one made, directly or through others, and that are still valid.
pub(crate) fn descendants(
    records: &Published,
    id: &str,
    now: Timestamp,
) -> Vec<(RecordKey, StoredToken)> {
    living(records, now, |_, token| token.ancestors.iter().any(|ancestor| ancestor == id))
}

/// The tokens of a person, and those that descend from one of them. The person is named by the
/// issuer's subject, or by issuer and subject where several issuers have the same.
pub(crate) fn of_person(
    records: &Published,
    text: &str,
    now: Timestamp,
) -> Result<Vec<(RecordKey, StoredToken)>, NoPerson> {
    let is_meant = |person: &str| {
        person == text || person.split_once(' ').is_some_and(|(_, subject)| subject == text)
    };
    let tokens = living(records, now, |_, token| token.person().is_some_and(is_meant));
    let mut people: Vec<String> =
        tokens.iter().filter_map(|(_, token)| token.person().map(str::to_owned)).collect();
    people.sort();
    people.dedup();
    match people.len() {
        0 => Err(NoPerson::Unknown),
        1 => Ok(tokens),
        _ => Err(NoPerson::Ambiguous(people)),
    }
}

/// The changes that revoke these tokens.
pub(crate) fn revocation(tokens: &[(RecordKey, StoredToken)]) -> Vec<RecordWrite> {
    tokens.iter().map(|(key, _)| RecordWrite::removal(key.clone())).collect()
}

fn living(
    records: &Published,
    now: Timestamp,
    is_meant: impl Fn(&RecordKey, &StoredToken) -> bool,
) -> Vec<(RecordKey, StoredToken)> {
    let read = |record: Record| StoredToken::from_record(&record).map(|token| (record.key, token));
    let all = records.of_kind(RecordKind::Token).into_iter().filter_map(read);
    all.filter(|(key, token)| !token.is_over(now) && is_meant(key, token)).collect()
}

#[cfg(test)]
mod tests {
    use api_types::access::Role;
    use control_plane::records::{Expected, RecordRow};

    use super::*;

    const ADA: &str = "https://issuer.example ada";

    fn token(expire_time: Option<i64>, subject: Option<&str>) -> StoredToken {
        StoredToken {
            name: "it".to_owned(),
            role: Role::Owner,
            namespaces: vec!["a".to_owned()],
            created_by: String::new(),
            create_time: Timestamp(0),
            expire_time: expire_time.map(Timestamp),
            last_use_time: None,
            subject: subject.map(str::to_owned),
            ancestors: Vec::new(),
            person: None,
            hash: String::new(),
        }
    }

    fn child(id: &str, parent: &StoredToken) -> StoredToken {
        let Lineage { ancestors, person, latest_end } = Lineage::of_child(id, parent, Timestamp(0));
        StoredToken { ancestors, person, expire_time: latest_end, ..token(None, None) }
    }

    fn publish(records: &Published, id: &str, token: &StoredToken) {
        let write = token.write(id, Expected::Nothing);
        records.update(&[RecordRow { key: write.key, version: 1, value: write.value }]);
    }

    fn ids(tokens: &[(RecordKey, StoredToken)]) -> Vec<&str> {
        tokens.iter().map(|(key, _)| key.key.as_str()).collect()
    }

    #[test]
    fn an_expiring_token_bounds_what_it_makes_and_a_person_does_so_for_a_quarter() {
        let end = |parent: &StoredToken| Lineage::of_child("p", parent, Timestamp(5)).latest_end;
        assert_eq!(end(&token(None, None)), None);
        assert_eq!(end(&token(Some(9), None)), Some(Timestamp(9)));
        let session = token(Some(9), Some(ADA));
        assert_eq!(end(&session), Some(Timestamp(5) + OF_A_PERSON));
        // What the person's own token makes is no person.
        let machine = StoredToken { expire_time: Some(Timestamp(7)), ..child("p", &session) };
        assert_eq!(end(&machine), Some(Timestamp(7)));
        assert_eq!(child("m", &machine).person.as_deref(), Some(ADA));
    }

    #[test]
    fn descendants_are_found_through_tokens_that_are_gone() {
        let records = Published::default();
        let first = token(None, None);
        let second = child("1", &first);
        let third = child("2", &second);
        publish(&records, "1", &first);
        publish(&records, "3", &third);
        publish(&records, "4", &StoredToken { expire_time: Some(Timestamp(1)), ..third });
        publish(&records, "5", &token(None, None));
        assert_eq!(ids(&descendants(&records, "1", Timestamp(2))), ["3"]);
        assert_eq!(ids(&descendants(&records, "2", Timestamp(2))), ["3"]);
        assert!(descendants(&records, "3", Timestamp(2)).is_empty());
    }

    #[test]
    fn a_person_is_all_that_began_with_their_tokens() {
        let records = Published::default();
        let session = token(Some(9), Some(ADA));
        publish(&records, "1", &session);
        publish(&records, "2", &child("1", &session));
        publish(&records, "3", &child("2", &child("1", &session)));
        publish(&records, "4", &token(None, Some("https://issuer.example eve")));
        publish(&records, "5", &token(None, None));
        for text in ["ada", ADA] {
            assert_eq!(of_person(&records, text, Timestamp(2)).map(|it| it.len()), Ok(3), "{text}");
        }
        assert_eq!(of_person(&records, "", Timestamp(2)), Err(NoPerson::Unknown));
        let other = "https://other.example ada";
        publish(&records, "6", &token(None, Some(other)));
        let both = vec![ADA.to_owned(), other.to_owned()];
        assert_eq!(of_person(&records, "ada", Timestamp(2)), Err(NoPerson::Ambiguous(both)));
        assert_eq!(ids(&of_person(&records, other, Timestamp(2)).unwrap()), ["6"]);
    }
}
