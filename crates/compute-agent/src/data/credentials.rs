//! The credentials that an execution names: asked for when something is fetched or published, and
//! only ever in memory.

use std::sync::Arc;

use agent_core::execution::Failure;
use api_types::ExecutionId;
use api_types::credential::{CredentialType, CredentialValue, Login};
use api_types::engine::Params;
use api_types::job::Task;
use api_types::protocol::FailureCause;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;

use super::handover::Handover;
use crate::data::progress::Progress;
use crate::data::retry::AttemptError;

/// The credentials that the task of one execution names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Granted(Arc<Vec<CredentialValue>>);

/// Who grants the credentials of a publisher.
#[derive(Debug, Clone)]
pub(crate) enum Grantor {
    Orchestrator(Handover),
    #[cfg(test)]
    Test(Result<Granted, Failure>),
}

// === impl Handover ===

impl Handover {
    /// Asks for the credentials that the task names, if any.
    pub(crate) async fn grant(
        &self,
        id: ExecutionId,
        task: &Task,
        progress: &Progress,
    ) -> Result<Granted, Failure> {
        if task.credentials().is_empty() {
            return Ok(Granted::default());
        }
        let waiting = || "waits for the orchestrator, to ask it for credentials".to_owned();
        // A large future, in every execution's.
        let asking = Box::pin(self.credentials(id, Vec::new()));
        let granted = Granted(Arc::new(progress.during(asking, waiting).await?));
        granted.check(task)?;
        Ok(granted)
    }

    /// Asks for the credentials that the publisher of the task names: whether the others exist does
    /// not matter any more.
    async fn grant_to_publisher(
        &self,
        id: ExecutionId,
        task: &Task,
        name: &str,
    ) -> Result<Granted, Failure> {
        // An orchestrator of an earlier release knows no names.
        let is_alone = task.credentials().iter().all(|named| named.name == name);
        let names = if is_alone { Vec::new() } else { vec![name.to_owned()] };
        let granted = Granted(Arc::new(self.credentials(id, names).await?));
        granted.check(task)?;
        Ok(granted)
    }
}

// === impl Grantor ===

impl Grantor {
    /// The credentials that the publisher of a task names, asked for again with each attempt: they
    /// may have changed while the task ran, and may be replaced at this moment.
    pub(crate) async fn of_publisher(
        &self,
        id: ExecutionId,
        task: &Task,
    ) -> Result<Option<CredentialValue>, AttemptError> {
        let params = &task.publisher.params;
        let Some(name) = named(params) else { return Ok(None) };
        let granted = match self {
            Self::Orchestrator(handover) => {
                Box::pin(handover.grant_to_publisher(id, task, name)).await
            }
            #[cfg(test)]
            Self::Test(granted) => granted.clone(),
        };
        match granted.and_then(|granted| granted.named_in(params).map(Option::<&_>::cloned)) {
            Ok(value) => Ok(value),
            Err(failure) if failure.cause == FailureCause::Missing => {
                Err(AttemptError::Transient(failure))
            }
            Err(failure) => Err(AttemptError::Permanent(failure)),
        }
    }
}

impl Grantor {
    /// Those of these archives on which live jobs depend.
    pub(crate) async fn needed_archives(
        &self,
        ids: &[ExecutionId],
    ) -> Result<Vec<ExecutionId>, Failure> {
        match self {
            Self::Orchestrator(handover) => handover.needed_archives(ids).await,
            #[cfg(test)]
            Self::Test(_) => Ok(Vec::new()),
        }
    }
}

// === impl Granted ===

impl Granted {
    #[cfg(test)]
    pub(crate) fn with(value: CredentialValue) -> Self {
        Self(Arc::new(vec![value]))
    }

    /// The credentials that these `Params` name, if they name some.
    pub(crate) fn named_in(&self, params: &Params) -> Result<Option<&CredentialValue>, Failure> {
        let Some(name) = named(params) else { return Ok(None) };
        let missing =
            || Failure::node(format!("the orchestrator did not send credentials '{name}'"));
        self.find(name).map(Some).ok_or_else(missing)
    }

    /// The orchestrator has judged them for their scopes as those were at the submission.
    fn check(&self, task: &Task) -> Result<(), Failure> {
        for named in task.credentials() {
            let Some(value) = self.find(named.name) else { continue };
            value
                .scope()
                .check(named.credential_type, &named.server)
                .map_err(|refused| Failure::missing(refused.to_string()))?;
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Option<&CredentialValue> {
        self.0.iter().find(|value| value.name == name)
    }
}

/// The name of the credentials in these `Params`.
pub(crate) fn named(params: &Params) -> Option<&str> {
    let name = params.get(api_types::credential::CREDENTIALS)?.as_str()?;
    (!name.is_empty()).then_some(name)
}

/// The value of the header `Authorization`, for a URL to which the login may be sent.
pub(crate) fn authorization(value: &CredentialValue, url: &str) -> Option<HeaderValue> {
    if !matches!(value.credential_type, CredentialType::Git | CredentialType::Http) {
        return None;
    }
    value.scope().check_url(url).ok()?;
    let Login { username, password, token, .. } = &value.login;
    let text = match token.as_str() {
        "" => format!("Basic {}", BASE64_STANDARD.encode(format!("{username}:{password}"))),
        token => format!("Bearer {token}"),
    };
    let mut header = HeaderValue::try_from(text).ok()?;
    header.set_sensitive(true);
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(credential_type: CredentialType, login: Login) -> CredentialValue {
        CredentialValue {
            name: "c".to_owned(),
            credential_type,
            hosts: vec!["h.example".to_owned()],
            buckets: Vec::new(),
            version: 1,
            login,
        }
    }

    #[test]
    fn a_login_is_a_header_for_its_hosts_alone() {
        let user = Login { username: "u".into(), password: "p".into(), ..Login::default() };
        let basic = value(CredentialType::Git, user.clone());
        let header = authorization(&basic, "https://h.example/a").unwrap();
        assert_eq!(header.to_str().unwrap(), "Basic dTpw");
        assert!(header.is_sensitive());
        let bearer = Login { token: "t".into(), ..Login::default() };
        let bearer = value(CredentialType::Http, bearer);
        assert_eq!(authorization(&bearer, "https://h.example/").unwrap(), "Bearer t");
        for elsewhere in ["https://evil.example/", "http://h.example/", "https://h.example:1/"] {
            assert_eq!(authorization(&bearer, elsewhere), None, "{elsewhere}");
        }
        let registry = value(CredentialType::Registry, user);
        assert_eq!(authorization(&registry, "https://h.example/"), None);
    }
}
