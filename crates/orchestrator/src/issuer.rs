//! The issuer that the operator trusts, as the settings name it.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use api_types::access::{IssuerOfIdTokens, SignInMethods};
use api_types::text::is_control;
use control_plane::clock::Reading;
use oidc::{Claims, Client, InvalidIssuer, Now, Provider, Verifier, VerifyError};
use zeroize::Zeroizing;

use crate::access::claims::{self, Confirmed};
use crate::access::exchange::{ExchangeRefusal, Person};
use crate::settings::{OidcSettings, RuleSettings};

/// Takes ID tokens of one issuer.
#[derive(Debug)]
pub(crate) struct Issuer {
    pub(crate) verifier: Verifier,
    /// As whom people sign in on the pages.
    pub(crate) client: Client,
    /// The ID of the client of the command line, which has no secret.
    cli_client: String,
    /// Where browsers reach this service, if the operator says so.
    pub(crate) public_url: Option<String>,
    ca: String,
    rules: Vec<RuleSettings>,
    name_claim: String,
    email_is_verified: bool,
}

/// Why an issuer cannot be used; the operator's settings are at fault.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    #[error("cannot read {setting} at {}", path.display())]
    Read { setting: &'static str, path: PathBuf, source: io::Error },
    #[error("oidc.client_secret_file at {} is empty", .0.display())]
    EmptySecret(PathBuf),
    #[error("use oidc.issuer and oidc.ca_file")]
    Invalid(#[from] InvalidIssuer),
}

/// The moment by the clocks that tokens and keys are judged by.
pub(crate) fn now() -> Now {
    let Reading { wall, boot, .. } = Reading::now();
    let unix_seconds = u64::try_from(wall.0 / 1_000_000_000).unwrap_or_default();
    Now { unix_seconds, uptime: Duration::from_nanos(boot) }
}

fn read(setting: &'static str, path: &Path) -> Result<Option<Zeroizing<String>>, IssuerError> {
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let text = fs::read_to_string(path).map_err(|source| IssuerError::Read {
        setting,
        path: path.to_owned(),
        source,
    })?;
    Ok(Some(Zeroizing::new(text)))
}

// === impl Issuer ===

impl Issuer {
    /// None if the settings name none. Makes no request yet.
    pub(crate) fn open(settings: &OidcSettings) -> Result<Option<Self>, IssuerError> {
        if settings.issuer.is_empty() {
            return Ok(None);
        }
        let path = &settings.client_secret_file;
        let secret = read("oidc.client_secret_file", path)?.map(|text| text.trim().to_owned());
        if secret.as_ref().is_some_and(String::is_empty) {
            return Err(IssuerError::EmptySecret(path.clone()));
        }
        let ca = read("oidc.ca_file", &settings.ca_file)?;
        let provider = Provider::new(&settings.issuer, ca.as_ref().map(|ca| ca.as_str()))?;
        let (id, cli_client) = (settings.client().to_owned(), settings.cli_client().to_owned());
        // The ID tokens of people who sign in are for the client that they use.
        let audiences = vec![settings.audience.clone(), id.clone(), cli_client.clone()];
        let public_url = settings.public_url.trim_end_matches('/');
        Ok(Some(Self {
            verifier: Verifier::new(provider, audiences),
            client: Client { id, secret, scopes: settings.scopes.clone() },
            cli_client,
            public_url: (!public_url.is_empty()).then(|| public_url.to_owned()),
            ca: ca.map(|ca| ca.as_str().to_owned()).unwrap_or_default(),
            rules: settings.rules.clone(),
            name_claim: settings.name_claim.clone(),
            email_is_verified: settings.email_is_verified,
        }))
    }

    /// Asks the issuer for its keys, so that its absence is known before a user signs in.
    pub(crate) async fn prepare(&self) {
        if self.verifier.metadata(now()).await.is_ok() {
            tracing::info!(
                issuer = self.verifier.provider().issuer(),
                "accepting ID tokens of this issuer"
            );
        }
    }

    /// What clients need to know to sign a user in.
    pub(crate) fn methods(&self) -> SignInMethods {
        SignInMethods {
            oidc: Some(IssuerOfIdTokens {
                issuer: self.verifier.provider().issuer().to_owned(),
                client_id: self.cli_client.clone(),
                scopes: self.client.scopes.clone(),
                confidential: self.client.secret.is_some() && self.cli_client == self.client.id,
                ca: self.ca.clone(),
            }),
        }
    }

    /// Whose token this is, and what the person may do.
    pub(crate) async fn person(
        &self,
        token: &str,
        nonce: Option<&str>,
    ) -> Result<Person, (ExchangeRefusal, Option<String>)> {
        let claims = match self.verifier.verify(token.trim(), nonce, now()).await {
            Ok(claims) => claims,
            Err(VerifyError::Invalid(invalid)) => {
                return Err((ExchangeRefusal::Invalid(invalid), None));
            }
            // The reason was logged when the issuer was asked.
            Err(VerifyError::Unavailable(_)) => return Err((ExchangeRefusal::Away, None)),
        };
        let Claims { subject, all } = &claims;
        let confirmed = Confirmed { all, email_is_verified: self.email_is_verified };
        let name = claims::name(confirmed, &self.name_claim);
        let Some(grant) = claims::grant(&self.rules, confirmed) else {
            let compared: Vec<_> = claims::compared(&self.rules).into_iter().collect();
            return Err((ExchangeRefusal::NoRule(compared.join(", ")), Some(name)));
        };
        let issuer = self.verifier.provider().issuer();
        let shown: String = subject.chars().filter(|it| !is_control(*it)).take(200).collect();
        let vouched_by = format!("{shown} at {issuer}");
        Ok(Person { name, subject: format!("{issuer} {subject}"), vouched_by, grant })
    }
}
