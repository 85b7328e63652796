//! Tokens and sessions as they are stored, and how they are verified.

use std::sync::Arc;

use api_types::Timestamp;
use api_types::access::{self, ALL_NAMESPACES, MONITOR_TOKEN, Role};
use api_types::text::is_control;
use control_plane::records::{Expected, Record, RecordKey, RecordKind, RecordWrite};
use control_plane::store::Namespaces;
use serde::{Deserialize, Serialize};

use super::credential::Credential;
use super::{Caller, Who};
use crate::records::Published;

/// The kind of a token, in its text. Those of monitors are [`MONITOR_TOKEN`]s.
const TOKEN: &str = "jt1";

/// The kind of a session, in its text.
pub(crate) const SESSION: &str = "js1";

/// A token as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct StoredToken {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) namespaces: Vec<String>,
    pub(crate) created_by: String,
    pub(crate) create_time: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expire_time: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_use_time: Option<Timestamp>,
    /// Whom an issuer vouched for, if the token was given for an ID token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<String>,
    /// The IDs of the token that made it, of the one that made that, and so on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ancestors: Vec<String>,
    /// The subject of the token with which its lineage began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) person: Option<String>,
    /// Empty if the secret was discarded because a browser has a session instead.
    pub(crate) hash: String,
}

/// The session of a browser as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct StoredSession {
    #[serde(rename = "TokenID")]
    pub(crate) token_id: String,
    pub(crate) expire_time: Timestamp,
    pub(crate) hash: String,
}

/// A verified caller, and what the right to go on depends on.
#[derive(Debug, Clone)]
pub(crate) struct Verified {
    pub(crate) caller: Arc<Caller>,
    /// Records without which the credentials are no longer valid.
    pub(crate) depends_on: Vec<RecordKey>,
    pub(crate) expires: Option<Timestamp>,
}

/// Why credentials are refused. Those that never existed and those that were revoked are not told
/// apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Invalid {
    Unknown,
    Expired,
}

// === impl StoredToken ===

impl StoredToken {
    pub(crate) fn from_record(record: &Record) -> Option<Self> {
        serde_json::from_str(&record.value).ok()
    }

    pub(crate) fn key(id: &str) -> RecordKey {
        RecordKind::Token.key(id)
    }

    pub(crate) fn write(&self, id: &str, expected: Expected) -> RecordWrite {
        RecordWrite::json(Self::key(id), expected, self)
    }

    /// The whole token, for its holder.
    pub(crate) fn text(&self, credential: &Credential) -> String {
        credential.text(kind_of(self.role))
    }

    /// The person whose token it is, or descends from.
    pub(crate) fn person(&self) -> Option<&str> {
        self.subject.as_deref().or(self.person.as_deref())
    }

    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.expire_time.is_some_and(|end| end <= now)
    }

    /// The token as users see it.
    pub(crate) fn wire(&self, id: &str) -> access::Token {
        access::Token {
            id: id.to_owned(),
            name: self.name.clone(),
            role: self.role,
            namespaces: self.namespaces.clone(),
            created_by: self.created_by.clone(),
            subject: self.person().map(shown_subject).unwrap_or_default(),
            create_time: self.create_time.rfc3339_seconds(),
            expire_time: shown(self.expire_time),
            last_use_time: shown(self.last_use_time),
        }
    }

    fn caller(&self, id: &str, session: Option<String>) -> Caller {
        let who = Who::Token { id: id.to_owned(), name: self.name.clone(), session };
        Caller { who, role: self.role, namespaces: namespaces(&self.namespaces) }
    }
}

// === impl StoredSession ===

impl StoredSession {
    pub(crate) fn from_record(record: &Record) -> Option<Self> {
        serde_json::from_str(&record.value).ok()
    }

    pub(crate) fn write(&self, id: &str) -> RecordWrite {
        RecordWrite::json(RecordKind::Session.key(id), Expected::Nothing, self)
    }
}

/// The kind of the tokens of a role. A token presented as another kind is none: otherwise the prefix
/// by which agents refuse tokens would say nothing.
const fn kind_of(role: Role) -> &'static str {
    match role {
        Role::Monitor => MONITOR_TOKEN,
        Role::Viewer | Role::Submitter | Role::Owner | Role::Operator | Role::Admin => TOKEN,
    }
}

/// Whether the text is meant as a token of this service.
pub(crate) fn is_token(text: &str) -> bool {
    text.starts_with(TOKEN) || text.starts_with(MONITOR_TOKEN)
}

pub(crate) fn namespaces(names: &[String]) -> Namespaces {
    match names {
        [one] if one == ALL_NAMESPACES => Namespaces::All,
        names => Namespaces::Only(names.iter().cloned().collect()),
    }
}

/// An issuer's name for a person is shown as people can type it.
fn shown_subject(subject: &str) -> String {
    subject.chars().filter(|it| !is_control(*it)).collect()
}

/// Empty for never.
pub(crate) fn shown(time: Option<Timestamp>) -> String {
    time.map(Timestamp::rfc3339_seconds).unwrap_or_default()
}

/// The caller who presents the text of a token.
pub(crate) fn verify(records: &Published, text: &str, now: Timestamp) -> Result<Verified, Invalid> {
    let (kind, presented) = [TOKEN, MONITOR_TOKEN]
        .into_iter()
        .find_map(|kind| Some((kind, Credential::parse(kind, text)?)))
        .ok_or(Invalid::Unknown)?;
    let token = find_token(records, &presented.id).ok_or(Invalid::Unknown)?;
    if kind != kind_of(token.role) || !presented.matches(&token.hash) {
        return Err(Invalid::Unknown);
    }
    valid(&presented.id, &token, now)
}

/// The caller whose browser presents the text of a session.
pub(crate) fn verify_session(
    records: &Published,
    text: &str,
    now: Timestamp,
) -> Result<Verified, Invalid> {
    let presented = Credential::parse(SESSION, text).ok_or(Invalid::Unknown)?;
    let key = RecordKind::Session.key(&presented.id);
    let record = records.get(&key).ok_or(Invalid::Unknown)?;
    let session = StoredSession::from_record(&record).ok_or(Invalid::Unknown)?;
    if !presented.matches(&session.hash) {
        return Err(Invalid::Unknown);
    }
    let token = find_token(records, &session.token_id).ok_or(Invalid::Unknown)?;
    let mut verified = valid(&session.token_id, &token, now)?;
    if session.expire_time <= now {
        return Err(Invalid::Expired);
    }
    let ends = verified.expires.map_or(session.expire_time, |end| end.min(session.expire_time));
    verified.expires = Some(ends);
    verified.caller = Arc::new(token.caller(&session.token_id, Some(presented.id)));
    verified.depends_on.push(key);
    Ok(verified)
}

fn find_token(records: &Published, id: &str) -> Option<StoredToken> {
    StoredToken::from_record(&records.get(&StoredToken::key(id))?)
}

fn valid(id: &str, token: &StoredToken, now: Timestamp) -> Result<Verified, Invalid> {
    if token.is_over(now) {
        return Err(Invalid::Expired);
    }
    Ok(Verified {
        caller: Arc::new(token.caller(id, None)),
        depends_on: vec![StoredToken::key(id)],
        expires: token.expire_time,
    })
}

#[cfg(test)]
mod tests {
    use control_plane::records::RecordRow;

    use super::*;

    fn publish(records: &Published, write: RecordWrite) {
        records.update(&[RecordRow { key: write.key, version: 1, value: write.value }]);
    }

    fn token(hash: String, expire_time: Option<Timestamp>) -> StoredToken {
        StoredToken {
            name: "it".to_owned(),
            role: Role::Submitter,
            namespaces: vec!["a".to_owned()],
            created_by: String::new(),
            create_time: Timestamp(0),
            expire_time,
            last_use_time: None,
            subject: None,
            ancestors: Vec::new(),
            person: None,
            hash,
        }
    }

    #[test]
    fn a_token_is_valid_until_it_expires_or_is_revoked() {
        let records = Published::default();
        let secret = Credential::mint();
        let text = secret.text(TOKEN);
        assert_eq!(verify(&records, &text, Timestamp(5)).unwrap_err(), Invalid::Unknown);
        let stored = token(secret.hash(), Some(Timestamp(10)));
        publish(&records, stored.write(&secret.id, Expected::Nothing));
        let verified = verify(&records, &text, Timestamp(9)).unwrap();
        assert!(verified.caller.may(Role::Submitter, "a") && !verified.caller.sees("b"));
        assert_eq!(verified.expires, Some(Timestamp(10)));
        assert_eq!(verify(&records, &text, Timestamp(10)).unwrap_err(), Invalid::Expired);

        let forged = Credential::parse(TOKEN, &format!("jt1_{}_{}", secret.id, "A".repeat(43)));
        let forged = forged.unwrap().text(TOKEN);
        assert_eq!(verify(&records, &forged, Timestamp(9)).unwrap_err(), Invalid::Unknown);
        publish(
            &records,
            RecordWrite { value: None, ..stored.write(&secret.id, Expected::Nothing) },
        );
        assert_eq!(verify(&records, &text, Timestamp(9)).unwrap_err(), Invalid::Unknown);
    }

    #[test]
    fn a_token_counts_only_as_the_kind_of_its_role() {
        let records = Published::default();
        for role in Role::ALL {
            let secret = Credential::mint();
            let stored = StoredToken { role: *role, ..token(secret.hash(), None) };
            publish(&records, stored.write(&secret.id, Expected::Nothing));
            for kind in [TOKEN, MONITOR_TOKEN] {
                let is_valid = verify(&records, &secret.text(kind), Timestamp(1)).is_ok();
                assert_eq!(is_valid, secret.text(kind) == stored.text(&secret), "{role} {kind}");
            }
            assert_eq!(stored.text(&secret).starts_with("jm1_"), *role == Role::Monitor);
        }
    }

    #[test]
    fn a_session_ends_with_its_token() {
        let records = Published::default();
        let (secret, cookie) = (Credential::mint(), Credential::mint());
        let stored = token(secret.hash(), Some(Timestamp(10)));
        publish(&records, stored.write(&secret.id, Expected::Nothing));
        let session = StoredSession {
            token_id: secret.id.clone(),
            expire_time: Timestamp(20),
            hash: cookie.hash(),
        };
        publish(&records, session.write(&cookie.id));
        let text = cookie.text(SESSION);
        let verified = verify_session(&records, &text, Timestamp(9)).unwrap();
        assert_eq!((verified.expires, verified.depends_on.len()), (Some(Timestamp(10)), 2));
        assert!(verify_session(&records, &text, Timestamp(10)).is_err());
        // A session is no token, and a token no session.
        assert!(verify(&records, &text, Timestamp(9)).is_err());
        assert!(verify_session(&records, &secret.text(TOKEN), Timestamp(9)).is_err());
        publish(
            &records,
            RecordWrite { value: None, ..stored.write(&secret.id, Expected::Nothing) },
        );
        assert!(verify_session(&records, &text, Timestamp(9)).is_err());
    }
}
