//! Tokens that are given for ID tokens.

use std::time::Duration;

use api_types::{Code, Timestamp};
use control_plane::records::{Expected, RecordKind, RecordWrite};
use oidc::InvalidToken;

use super::claims::Grant;
use super::credential::Credential;
use super::token::StoredToken;
use crate::records::Published;

/// The life of such a token: a working day, after which the issuer is asked again. The end of the ID
/// token does not bound it: those live for minutes, enough to be traded.
pub(crate) const LIFETIME: Duration = Duration::from_hours(12);

/// The most tokens of one subject. A further one takes the place of the oldest, so that a busy
/// pipeline neither fills the store nor is refused.
const MAX_OF_SUBJECT: usize = 200;

/// The most such tokens in all, a fifth of what the store takes: people can still be given tokens.
pub(crate) const MAX_IN_ALL: usize = 20_000;

/// A person or program whom an issuer vouches for and a rule gives a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) name: String,
    /// The issuer and its name for the person, which it gives to no one else.
    pub(crate) subject: String,
    /// The same for people to read.
    pub(crate) vouched_by: String,
    pub(crate) grant: Grant,
}

/// Why there is no token for an ID token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExchangeRefusal {
    #[error("this orchestrator has no issuer of OpenID Connect")]
    NoIssuer,
    #[error("the ID token is refused: {0}")]
    Invalid(InvalidToken),
    /// The names of the claims that rules compare.
    #[error("no rule gives a role to this identity; the rules compare the claims {0}")]
    NoRule(String),
    /// The reason is for the log alone.
    #[error("the issuer of ID tokens does not answer")]
    Away,
    #[error("there are already {MAX_IN_ALL} tokens that were issued for ID tokens")]
    TooMany,
}

/// A token that is to be stored.
#[derive(Debug)]
pub(crate) struct Minted {
    pub(crate) credential: Credential,
    pub(crate) token: StoredToken,
    pub(crate) writes: Vec<RecordWrite>,
}

/// Who receives the secret of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secret {
    /// The caller gets it.
    Given,
    /// No one does: a browser gets a session instead.
    Dropped,
}

// === impl ExchangeRefusal ===

impl ExchangeRefusal {
    pub(crate) const fn code(&self) -> Code {
        match self {
            Self::NoIssuer => Code::PathNotFound,
            Self::Invalid(_) => Code::Unauthenticated,
            Self::NoRule(_) => Code::Forbidden,
            Self::Away => Code::IssuerUnavailable,
            Self::TooMany => Code::TooManyRequests,
        }
    }

    pub(crate) const fn hint(&self) -> &'static str {
        match self {
            Self::NoIssuer => "set oidc.issuer, or use a token: jobctl login",
            Self::Invalid(InvalidToken::Expired) => "ask the issuer for a new ID token",
            Self::Invalid(InvalidToken::Audience | InvalidToken::AuthorizedParty) => {
                "ask the issuer for an ID token with the audience that \
                 GET /api/v1/auth/methods names"
            }
            Self::Invalid(InvalidToken::NotYetValid) => {
                "compare the clocks of the issuer and of the orchestrator"
            }
            Self::Invalid(InvalidToken::Issuer) => {
                "GET /api/v1/auth/methods names the issuer whose tokens are taken"
            }
            Self::Invalid(InvalidToken::UnknownKey) => {
                "if the issuer has a new key, try again in 30 seconds"
            }
            Self::Invalid(_) => "present the ID token as the issuer gave it",
            Self::NoRule(_) => "ask an admin for a rule in oidc.rules that matches your claims",
            Self::Away | Self::TooMany => "try again",
        }
    }
}

/// Makes a token for a person.
pub(crate) fn mint(
    records: &Published,
    person: &Person,
    secret: Secret,
    now: Timestamp,
) -> Result<Minted, ExchangeRefusal> {
    let mut in_all = 0;
    let mut of_subject = Vec::new();
    for record in records.of_kind(RecordKind::Token) {
        let Some(token) = StoredToken::from_record(&record) else { continue };
        let Some(subject) = &token.subject else { continue };
        in_all += 1;
        if *subject == person.subject {
            of_subject.push((token.create_time, record.key));
        }
    }
    of_subject.sort();
    let surplus = (of_subject.len() + 1).saturating_sub(MAX_OF_SUBJECT);
    if surplus == 0 && in_all >= MAX_IN_ALL {
        return Err(ExchangeRefusal::TooMany);
    }
    let oldest = of_subject.into_iter().take(surplus);
    let mut writes: Vec<_> = oldest.map(|(_, key)| RecordWrite::removal(key)).collect();
    let credential = Credential::mint();
    let token = StoredToken {
        name: person.name.clone(),
        role: person.grant.role,
        namespaces: person.grant.namespaces.clone(),
        created_by: person.vouched_by.clone(),
        create_time: now,
        expire_time: Some(now + LIFETIME),
        last_use_time: None,
        subject: Some(person.subject.clone()),
        ancestors: Vec::new(),
        person: None,
        hash: match secret {
            Secret::Given => credential.hash(),
            Secret::Dropped => String::new(),
        },
    };
    writes.push(token.write(&credential.id, Expected::Nothing));
    Ok(Minted { credential, token, writes })
}

#[cfg(test)]
mod tests {
    use api_types::access::Role;
    use control_plane::records::RecordRow;

    use super::*;
    use crate::access::token::verify;

    fn person(subject: &str) -> Person {
        Person {
            name: "ada".to_owned(),
            subject: subject.to_owned(),
            vouched_by: String::new(),
            grant: Grant { role: Role::Viewer, namespaces: vec!["a".to_owned()] },
        }
    }

    fn publish(records: &Published, writes: Vec<RecordWrite>) {
        let row = |write: RecordWrite| RecordRow { key: write.key, version: 1, value: write.value };
        records.update(&writes.into_iter().map(row).collect::<Vec<_>>());
    }

    fn minted(records: &Published, subject: &str, secret: Secret, now: i64) -> Minted {
        mint(records, &person(subject), secret, Timestamp(now)).unwrap()
    }

    #[test]
    fn a_secret_that_nobody_has_is_no_credential() {
        let records = Published::default();
        for (secret, is_valid) in [(Secret::Given, true), (Secret::Dropped, false)] {
            let Minted { credential, token, writes } = minted(&records, "ada", secret, 0);
            publish(&records, writes);
            let verified = verify(&records, &token.text(&credential), Timestamp(1));
            assert_eq!(verified.is_ok(), is_valid, "{secret:?}");
        }
    }

    #[test]
    fn a_subject_has_so_many_tokens_and_the_oldest_make_room() {
        let records = Published::default();
        let mut first = None;
        for now in 0..MAX_OF_SUBJECT {
            let minted = minted(&records, "ada", Secret::Given, i64::try_from(now).unwrap());
            assert_eq!(minted.writes.len(), 1);
            first.get_or_insert(minted.credential.id.clone());
            publish(&records, minted.writes);
        }
        let other = minted(&records, "eve", Secret::Given, 1000);
        assert_eq!(other.writes.len(), 1);
        publish(&records, other.writes);
        let next = minted(&records, "ada", Secret::Given, 1000);
        let removed: Vec<_> = next.writes.iter().filter(|write| write.value.is_none()).collect();
        assert_eq!(removed.len(), 1);
        assert_eq!(Some(&removed[0].key.key), first.as_ref());
    }

    #[test]
    fn all_subjects_together_leave_room_for_other_tokens() {
        let records = Published::default();
        let of = |subject: String| StoredToken {
            subject: Some(subject),
            ..minted(&Published::default(), "x", Secret::Dropped, 0).token
        };
        let writes = (0..MAX_IN_ALL).map(|number| {
            of(format!("subject-{number}")).write(&number.to_string(), Expected::Nothing)
        });
        publish(&records, writes.collect());
        let refused = mint(&records, &person("ada"), Secret::Given, Timestamp(0)).unwrap_err();
        assert_eq!(refused, ExchangeRefusal::TooMany);
    }
}
