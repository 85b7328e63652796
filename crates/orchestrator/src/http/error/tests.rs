//! Every refusal, with its code, its message and its hint, as a table.

use std::fmt::Write as _;
use std::time::Duration;

use api_types::access::Role;
use api_types::engine::UnknownWord;
use api_types::error::FieldError;
use api_types::job::{JobStateType, JobType};
use api_types::testing::flaw;
use api_types::{ExecutionId, JobId, NodeId, rows};
use control_plane::records::{RecordKey, RecordKind, RecordRefusal};
use insta::assert_snapshot;
use oidc::InvalidToken;
use uuid::Uuid;

use super::*;
use crate::access::Needs;
use crate::access::exchange::ExchangeRefusal;
use crate::access::node::NodeRefusal;
use crate::access::token::Invalid;
use crate::rotation::RotationRefusal;
use crate::shares::{Bound, Group};

const ID: Uuid = Uuid::from_u128(0x2c8b_2de0_03e2_42a7_9e94_c50c_be7c_0e78);

fn node() -> NodeId {
    NodeId::from_uuid(ID)
}

fn job() -> JobId {
    JobId::from_uuid(ID)
}

fn text() -> String {
    "text".to_owned()
}

fn problems() -> Vec<FieldError> {
    let problem =
        |path: &str| FieldError { path: path.to_owned(), reason: "is required".to_owned() };
    vec![problem("Tasks"), problem("Type")]
}

fn bad_requests() -> Vec<Failure> {
    let rows = rows!(BadRequest {
        BadRequest::MalformedBody { .. } => [BadRequest::MalformedBody { reason: text() }],
        BadRequest::BodyTooSlow { .. } => [
            BadRequest::BodyTooSlow { limit: Duration::from_secs(60) },
        ],
        BadRequest::BodyTooLarge { .. } => [BadRequest::BodyTooLarge { limit_bytes: 10 << 20 }],
        BadRequest::MediaType { .. } => [
            BadRequest::MediaType { found: None },
            BadRequest::MediaType { found: Some("text/html".to_owned()) },
        ],
        BadRequest::ContentEncoding(_) => [BadRequest::ContentEncoding("gzip".to_owned())],
        BadRequest::Job(_) => [BadRequest::Job(problems())],
        BadRequest::Body(_) => [BadRequest::Body(problems())],
        BadRequest::Query { .. } => [
            BadRequest::Query { reason: text(), permitted: vec!["state"] },
        ],
        BadRequest::NextToken { .. } => [BadRequest::NextToken { reason: "it is damaged" }],
        BadRequest::Header { .. } => [
            BadRequest::Header { name: "host", reason: "is missing".to_owned() },
        ],
        BadRequest::NodeAction(_) => [BadRequest::NodeAction(UnknownWord {
            text: "reboot".to_owned(), kind: "a node action", known: "approve, drain".to_owned(),
        })],
        BadRequest::Method { .. } => [
            BadRequest::Method { method: "PUT".to_owned(), path: "/api/v1/x".to_owned() },
        ],
        BadRequest::NoResultsForType { .. } => [
            BadRequest::NoResultsForType { job: job(), job_type: JobType::Daemon },
        ],
        BadRequest::NoRerunForType { .. } => [
            BadRequest::NoRerunForType { job: job(), job_type: JobType::Service },
        ],
    });
    rows.into_iter().map(|(_, reason)| reason.into()).collect()
}

fn kinds() -> Vec<Kind> {
    let rows = rows!(Kind {
        Kind::Job => [Kind::Job],
        Kind::Graph => [Kind::Graph],
        Kind::Execution => [Kind::Execution],
        Kind::Node => [Kind::Node],
        Kind::Token => [Kind::Token],
        Kind::Secret => [Kind::Secret],
        Kind::Credential => [Kind::Credential],
        Kind::Group => [Kind::Group],
        Kind::Schedule => [Kind::Schedule],
    });
    rows.into_iter().map(|(_, kind)| kind).collect()
}

fn absences() -> Vec<Failure> {
    let (name, namespace) = (text(), "team".to_owned());
    let mut failures = Vec::new();
    for kind in kinds() {
        for cause in [NotFoundCause::Absent, NotFoundCause::Malformed] {
            failures.push(Absent::Record { kind, text: text(), cause }.into());
        }
    }
    for kind in [Kind::Secret, Kind::Credential] {
        failures
            .push(Absent::OfTask { kind, name: name.clone(), namespace: namespace.clone() }.into());
    }
    let rows = rows!(Absent {
        Absent::Record { .. } => [
            Absent::Record { kind: Kind::Job, text: text(), cause: NotFoundCause::Absent },
        ],
        Absent::Ambiguous { .. } => [
            Absent::Ambiguous { kind: Kind::Job, text: text(), candidates: Vec::new() },
        ],
        Absent::OfTask { .. } => [Absent::OfTask { kind: Kind::Secret, name, namespace }],
        Absent::Namespace { .. } => [
            Absent::Namespace { name: text(), own: Vec::new() },
            Absent::Namespace { name: text(), own: vec!["team".to_owned()] },
        ],
        Absent::Stream { .. } => [Absent::Stream { stream: text() }],
        Absent::Archive { .. } => [
            Absent::Archive { execution: ExecutionId::from_uuid(ID), reason: text() },
        ],
        Absent::Path { .. } => [Absent::Path { path: "/api/v1/x".to_owned() }],
    });
    failures.extend(rows.into_iter().skip(1).map(|(_, reason)| reason.into()));
    failures
}

fn node_refusals() -> Vec<Failure> {
    let rows = rows!(NodeRefusal {
        NodeRefusal::NotANode => [NodeRefusal::NotANode],
        NodeRefusal::Revoked(_) => [NodeRefusal::Revoked(node())],
        NodeRefusal::Expired(_) => [NodeRefusal::Expired(node())],
        NodeRefusal::TooOld(_) => [NodeRefusal::TooOld(node())],
        NodeRefusal::OtherNode { .. } => [
            NodeRefusal::OtherNode { own: node(), asked: node().short() },
        ],
        NodeRefusal::RejectedKey(_) => [NodeRefusal::RejectedKey(node())],
        NodeRefusal::UnknownToken => [NodeRefusal::UnknownToken],
        NodeRefusal::ExpiredToken => [NodeRefusal::ExpiredToken],
        NodeRefusal::UsedToken => [NodeRefusal::UsedToken],
        NodeRefusal::BoundNode(_) => [NodeRefusal::BoundNode(node())],
        NodeRefusal::Uncertified(_) => [NodeRefusal::Uncertified(node())],
        NodeRefusal::Unprotected => [NodeRefusal::Unprotected],
    });
    rows.into_iter().map(|(_, refusal)| Denied::Node(refusal).into()).collect()
}

fn tokens() -> Vec<Failure> {
    let rows = rows!(InvalidToken {
        InvalidToken::TooLong => [InvalidToken::TooLong],
        InvalidToken::Malformed => [InvalidToken::Malformed],
        InvalidToken::Algorithm => [InvalidToken::Algorithm],
        InvalidToken::Header => [InvalidToken::Header],
        InvalidToken::UnknownKey => [InvalidToken::UnknownKey],
        InvalidToken::Signature => [InvalidToken::Signature],
        InvalidToken::Issuer => [InvalidToken::Issuer],
        InvalidToken::Audience => [InvalidToken::Audience],
        InvalidToken::AuthorizedParty => [InvalidToken::AuthorizedParty],
        InvalidToken::Expired => [InvalidToken::Expired],
        InvalidToken::NotYetValid => [InvalidToken::NotYetValid],
        InvalidToken::Claim(_) => [InvalidToken::Claim("sub")],
        InvalidToken::Nonce => [InvalidToken::Nonce],
    });
    let mut refusals: Vec<_> =
        rows.into_iter().map(|(_, it)| ExchangeRefusal::Invalid(it)).collect();
    let rows = rows!(ExchangeRefusal {
        ExchangeRefusal::Invalid(_) => [ExchangeRefusal::Invalid(InvalidToken::Expired)],
        ExchangeRefusal::NoIssuer => [ExchangeRefusal::NoIssuer],
        ExchangeRefusal::NoRule(_) => [ExchangeRefusal::NoRule("groups".to_owned())],
        ExchangeRefusal::Away => [ExchangeRefusal::Away],
        ExchangeRefusal::TooMany => [ExchangeRefusal::TooMany],
    });
    refusals.extend(rows.into_iter().skip(1).map(|(_, refusal)| refusal));
    refusals.into_iter().map(|refusal| Denied::Exchange(refusal).into()).collect()
}

fn needs() -> Vec<Denied> {
    let rows = rows!(Needs {
        Needs::Nothing => [Needs::Nothing],
        Needs::Credentials => [Needs::Credentials],
        Needs::User => [Needs::User],
        Needs::Role(_) => [Needs::Role(Role::Operator)],
        Needs::Node => [Needs::Node],
    });
    let denied = |needs| Denied::NotPermitted { needs, namespace: Some("team".to_owned()) };
    rows.into_iter().map(|(_, needs)| denied(needs)).collect()
}

fn denials() -> Vec<Failure> {
    let rows = rows!(Denied {
        Denied::OtherHost { .. } => [Denied::OtherHost { host: "evil.example".to_owned() }],
        Denied::CrossOrigin { .. } => [
            Denied::CrossOrigin { header: "origin", value: "https://evil.example".to_owned() },
        ],
        Denied::Proxied { .. } => [Denied::Proxied { header: "x-forwarded-for" }],
        Denied::UnprotectedSecret => [Denied::UnprotectedSecret],
        Denied::NoCredentials => [Denied::NoCredentials],
        Denied::InvalidCredentials(_) => [
            Denied::InvalidCredentials(Invalid::Unknown),
            Denied::InvalidCredentials(Invalid::Expired),
        ],
        Denied::NotPermitted { .. } => [
            Denied::NotPermitted { needs: Needs::Role(Role::Admin), namespace: None },
        ],
        Denied::RoleBeyondOwn { .. } => [Denied::RoleBeyondOwn { role: Role::Admin }],
        Denied::LabelsOfAdmin(_) => [
            Denied::LabelsOfAdmin(vec!["zone".to_owned(), "rack".to_owned()]),
        ],
        Denied::Node(_) => [Denied::Node(NodeRefusal::NotANode)],
        Denied::Exchange(_) => [Denied::Exchange(ExchangeRefusal::Away)],
    });
    let nested = |denied: &Denied| matches!(denied, Denied::Node(_) | Denied::Exchange(_));
    let rows = rows.into_iter().map(|(_, denied)| denied).filter(|denied| !nested(denied));
    rows.chain(needs()).map(Failure::from).chain(node_refusals()).chain(tokens()).collect()
}

fn conflicts() -> Vec<Failure> {
    let rotations = rows!(RotationRefusal {
        RotationRefusal::Unprotected => [RotationRefusal::Unprotected],
        RotationRefusal::NoKey => [RotationRefusal::NoKey],
        RotationRefusal::TooManyAuthorities => [RotationRefusal::TooManyAuthorities],
        RotationRefusal::TooManyKeys => [RotationRefusal::TooManyKeys],
        RotationRefusal::ClusterKeyFile(_) => [RotationRefusal::ClusterKeyFile(text())],
        RotationRefusal::NoNextClusterKey(_) => [
            RotationRefusal::NoNextClusterKey("/etc/jobs/cluster.key.next".into()),
        ],
        RotationRefusal::MemberLacksKey { .. } => [
            RotationRefusal::MemberLacksKey { id: node(), address: "b.internal:1234".to_owned() },
        ],
    });
    let rows = rows!(Conflict {
        Conflict::JobFinished { .. } => [
            Conflict::JobFinished { job: job(), state: JobStateType::Failed },
        ],
        Conflict::JobNotFinished { .. } => [
            Conflict::JobNotFinished { job: job(), state: JobStateType::Queued, running: 0 },
            Conflict::JobNotFinished { job: job(), state: JobStateType::Stopped, running: 2 },
        ],
        Conflict::NoSpecification(_) => [Conflict::NoSpecification(job())],
        Conflict::OwnNode(_) => [Conflict::OwnNode(node())],
        Conflict::NamespaceInUse { .. } => [
            Conflict::NamespaceInUse { namespace: "team".to_owned(), reason: text() },
        ],
        Conflict::Rotation(_) => [Conflict::Rotation(RotationRefusal::NoKey)],
    });
    let rows = rows.into_iter().map(|(_, conflict)| conflict);
    let rows = rows.filter(|conflict| !matches!(conflict, Conflict::Rotation(_)));
    let rotations = rotations.into_iter().map(|(_, refusal)| Conflict::Rotation(refusal));
    rows.chain(rotations).map(Failure::from).collect()
}

fn shortages() -> Vec<Failure> {
    let bounds = rows!(Bound {
        Bound::All => [Bound::All],
        Bound::Group { .. } => [
            Bound::Group { group: Group::Namespace("team".into()), held: 4 },
            Bound::Group { group: Group::Nodes, held: 4 },
        ],
        Bound::Principal { .. } => [Bound::Principal { held: 4 }],
        Bound::Pace { .. } => [Bound::Pace { namespace: "team".into() }],
    });
    let refused = |bound| Busy::LimitReached(Refused { what: "log readers", total: 8, bound });
    let rows = rows!(Busy {
        Busy::LimitReached(_) => [refused(Bound::All)],
        Busy::Readers { .. } => [Busy::Readers { waited: Duration::from_secs(10) }],
        Busy::NodeAway(_) => [Busy::NodeAway(node())],
        Busy::LeadUncertain => [Busy::LeadUncertain],
        Busy::NodeFailed { .. } => [
            Busy::NodeFailed { node: node(), reason: "its disk cannot be read".to_owned() },
        ],
    });
    let bounds = bounds.into_iter().map(|(_, bound)| refused(bound));
    bounds.chain(rows.into_iter().skip(1).map(|(_, busy)| busy)).map(Failure::from).collect()
}

fn refusals() -> Vec<CallError> {
    let rows = rows!(Refusal {
        Refusal::JobNotLive(_) => [Refusal::JobNotLive(job())],
        Refusal::JobFinished { .. } => [
            Refusal::JobFinished { job: job(), state: JobStateType::Stopped },
        ],
        Refusal::JobExists(_) => [Refusal::JobExists(job())],
        Refusal::DependencyMissing { .. } =>
            [Refusal::DependencyMissing { job: job(), name: "build".to_owned() }],
        Refusal::NoSuchNode(_) => [Refusal::NoSuchNode(node())],
        Refusal::StaleSession { .. } => [
            Refusal::StaleSession { node: node(), came: 3, current: 4 },
        ],
        Refusal::LeaseExpired(_) => [Refusal::LeaseExpired(node())],
        Refusal::SecondAgent { .. } => [
            Refusal::SecondAgent { node: node(), machine: "host-a".to_owned() },
        ],
        Refusal::AgentOnTrial(_) => [Refusal::AgentOnTrial(node())],
        Refusal::NodeRejected(_) => [Refusal::NodeRejected(node())],
        Refusal::NodeConnected(_) => [Refusal::NodeConnected(node())],
        Refusal::NoSuchGroup(_) => [Refusal::NoSuchGroup("db".to_owned())],
        Refusal::GroupShared { .. } => [
            Refusal::GroupShared { name: "db".to_owned(), limit: 5 },
        ],
        Refusal::QuotaExceeded { .. } => [
            Refusal::QuotaExceeded { namespace: "ci".to_owned(), slots: 3, queued: 8, most: 10 },
        ],
        Refusal::TooManySlots { .. } => [
            Refusal::TooManySlots { namespace: "ci".to_owned(), slots: 1, most: 0 },
        ],
        Refusal::GroupInUse { .. } => [Refusal::GroupInUse { name: "db".to_owned(), jobs: 2 }],
        Refusal::SlotWithoutNode { .. } => [
            Refusal::SlotWithoutNode { index: 3, node: text(), why: "is not known any more" },
        ],
        Refusal::TooScattered { .. } => [
            Refusal::TooScattered { namespace: "team".to_owned(), ranges: 1_900_000, more: 500_000 },
        ],
        Refusal::NodeBusy { .. } => [Refusal::NodeBusy { node: node(), executions: 3 }],
    });
    rows.into_iter().map(|(_, refusal)| CallError::Refused(refusal)).collect()
}

fn calls() -> Vec<Failure> {
    let key = || RecordKey { kind: RecordKind::Secret, key: "team/token".to_owned() };
    let records = rows!(RecordRefusal {
        RecordRefusal::Changed(_) => [RecordRefusal::Changed(key())],
        RecordRefusal::TooMany(_) => [RecordRefusal::TooMany(RecordKind::Secret)],
        RecordRefusal::TooLarge(_) => [RecordRefusal::TooLarge(key())],
        RecordRefusal::InUse { .. } => [RecordRefusal::InUse { key: key(), jobs: 2 }],
        RecordRefusal::NoRoom { .. } => [RecordRefusal::NoRoom { key: key(), reason: "it is full" }],
    });
    let rows = rows!(CallError {
        CallError::Refused(_) => [CallError::Refused(Refusal::JobExists(job()))],
        CallError::Record(_) => [CallError::Record(RecordRefusal::TooMany(RecordKind::Secret))],
        CallError::IdempotencyConflict => [CallError::IdempotencyConflict],
        CallError::QueueFull => [CallError::QueueFull],
        CallError::QueueShare { .. } => [
            CallError::QueueShare { reason: text(), hint: "try again" },
        ],
        CallError::StoreUnavailable => [CallError::StoreUnavailable],
        CallError::OutcomeUnknown => [CallError::OutcomeUnknown],
        CallError::Stopping => [CallError::Stopping],
    });
    let records = records.into_iter().map(|(_, refusal)| CallError::Record(refusal));
    let rows = rows.into_iter().skip(2).map(|(_, error)| error);
    refusals().into_iter().chain(records).chain(rows).map(Failure::from).collect()
}

/// Those of the store and of bugs quote nothing: their causes are for the log.
fn failures() -> Vec<Failure> {
    let rows = rows!(Failure {
        Failure::BadRequest(_) => [BadRequest::Job(problems()).into()],
        Failure::Absent(_) => [Absent::Stream { stream: text() }.into()],
        Failure::Denied(_) => [Denied::NoCredentials.into()],
        Failure::Conflict(_) => [Conflict::OwnNode(node()).into()],
        Failure::Busy(_) => [Busy::NodeAway(node()).into()],
        Failure::Call(_) => [CallError::Stopping.into()],
        Failure::Store(_) => [
            StoreError::Unavailable.into(),
            StoreError::Record { detail: "Os { code: 2 }".to_owned() }.into(),
        ],
        Failure::Internal { .. } => [Failure::Internal { cause: "Os { code: 2 }".to_owned() }],
    });
    let long_search = StoreError::LongSearch { limit: Duration::from_secs(10) };
    let groups = [bad_requests(), absences(), denials(), conflicts(), shortages(), calls()];
    let rest = rows.into_iter().skip(groups.len()).map(|(_, failure)| failure);
    groups.into_iter().flatten().chain(rest).chain([long_search.into()]).collect()
}

#[test]
fn every_refusal_says_what_is_wrong_and_what_to_do() {
    let mut table = String::new();
    for failure in failures() {
        let (code, message, hint) = (failure.code(), failure.message(), failure.hint());
        for text in [&message, &hint] {
            assert_eq!(flaw(text), None, "{text}");
        }
        writeln!(table, "{} {code:?}: {message}", code.status()).unwrap();
        if !hint.is_empty() {
            writeln!(table, "    {hint}").unwrap();
        }
    }
    assert_snapshot!("refusals", table);
}
