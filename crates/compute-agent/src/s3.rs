//! Buckets of services that speak S3, for inputs and results alike.
//!
//! Credentials, and the endpoint that is meant when a job names none, come from the agent's
//! `AWS_…` variables. An endpoint that a job names is a stranger's word and judged like any other
//! URL of a job; the operator's own is not.

use std::error::Error;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{HttpClient, HttpConnector};
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use reqwest::Url;

use crate::attempts::{Patience, Setback};
use crate::execution::Failure;
use crate::settings::AwsVariables;
use crate::web::Web;
use crate::web::addresses::{Forbidden, Reach};

/// What a variable begins with that concerns S3.
pub(crate) const VARIABLES: &str = "AWS_";

/// The region where nobody names one; services other than Amazon's mostly do not care.
const DEFAULT_REGION: &str = "us-east-1";

/// Variables of which one says that there are credentials, or that none are needed.
const CREDENTIALS: [&str; 5] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
];

#[derive(Debug, Clone)]
pub(crate) struct Buckets {
    variables: AwsVariables,
    /// For endpoints that jobs name.
    web: Web,
    /// For the operator's endpoint.
    own_web: Web,
    patience: Patience,
}

/// A bucket as a job names it.
pub(crate) struct Bucket {
    pub(crate) store: AmazonS3,
    pub(crate) name: String,
    pub(crate) region: String,
    /// Where it is, for messages.
    pub(crate) endpoint: String,
}

/// Hands the store the client that judges.
#[derive(Debug)]
struct Connector(Web);

// === impl Buckets ===

impl Buckets {
    /// None where there are no credentials: nothing could be asked for.
    pub(crate) fn new(variables: &AwsVariables, web: Web, patience: Patience) -> Option<Self> {
        let given = |name: &str| variables.0.get(name).is_some_and(|value| !value.is_empty());
        CREDENTIALS.iter().any(|name| given(name)).then(|| Self {
            variables: variables.clone(),
            web,
            own_web: Web::new(Reach::Anywhere),
            patience,
        })
    }

    /// Why a job's bucket cannot be meant, from what it says alone.
    pub(crate) fn admit(&self, bucket: &str, endpoint: &str) -> Result<(), String> {
        if bucket.is_empty() {
            return Err("its Params need a Bucket".to_owned());
        }
        if !endpoint.is_empty() && Some(endpoint) != self.own_endpoint() {
            let url = Url::parse(endpoint)
                .ok()
                .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
                .ok_or_else(|| format!("its Endpoint '{endpoint}' is not an http or https URL"))?;
            self.web.judge(&url).map_err(|refused| refused.to_string())?;
        }
        Ok(())
    }

    /// Nothing is asked of the service yet. An empty region or endpoint is the node's own.
    pub(crate) fn open(
        &self,
        bucket: &str,
        region: &str,
        endpoint: &str,
    ) -> Result<Bucket, Setback> {
        self.admit(bucket, endpoint).map_err(|reason| Setback::Lasting(Failure::task(reason)))?;
        let mut builder = AmazonS3Builder::new();
        for (name, value) in &self.variables.0 {
            // The same names as of every other program that knows these variables; what this
            // one does not know is meant for others.
            if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
                builder = builder.with_config(key, value);
            }
        }
        let region = match (region, self.own_region()) {
            ("", Some(own)) => own,
            ("", None) => DEFAULT_REGION,
            (given, _) => given,
        };
        let (web, endpoint) = match (endpoint, self.own_endpoint()) {
            ("", own) => (&self.own_web, own.unwrap_or_default()),
            (given, own) if Some(given) == own => (&self.own_web, given),
            (given, _) => (&self.web, given),
        };
        if !endpoint.is_empty() {
            builder = builder.with_endpoint(endpoint);
        }
        let store = builder
            .with_bucket_name(bucket)
            .with_region(region)
            .with_http_connector(Connector(web.clone()))
            .with_retry(self.retry())
            .build()
            .map_err(|error| Setback::lasting(format!("bucket '{bucket}': {}", words(&error))))?;
        Ok(Bucket {
            store,
            name: bucket.to_owned(),
            region: region.to_owned(),
            endpoint: match endpoint {
                "" => format!("Amazon S3 ({region})"),
                endpoint => endpoint.to_owned(),
            },
        })
    }

    fn own_endpoint(&self) -> Option<&str> {
        ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]
            .iter()
            .find_map(|name| self.variables.0.get(*name))
            .map(String::as_str)
            .filter(|endpoint| !endpoint.is_empty())
    }

    fn own_region(&self) -> Option<&str> {
        ["AWS_REGION", "AWS_DEFAULT_REGION"]
            .iter()
            .find_map(|name| self.variables.0.get(*name))
            .map(String::as_str)
            .filter(|region| !region.is_empty())
    }

    /// The store tries each request again by itself, and goes on where an answer broke off.
    fn retry(&self) -> RetryConfig {
        let Patience { tries, first, longest } = self.patience;
        RetryConfig {
            backoff: BackoffConfig { init_backoff: first, max_backoff: longest, base: 2.0 },
            max_retries: tries.saturating_sub(1) as usize,
            ..RetryConfig::default()
        }
    }
}

// === impl Bucket ===

impl Bucket {
    /// What an error about a key means; the store tried again already.
    pub(crate) fn setback(&self, key: &str, error: &object_store::Error) -> Setback {
        use object_store::Error as E;
        let mut cause: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(inner) = cause {
            if let Some(forbidden) = inner.downcast_ref::<Forbidden>() {
                return Setback::lasting(forbidden.to_string());
            }
            cause = inner.source();
        }
        let Self { name, endpoint, .. } = self;
        Setback::lasting(match error {
            E::NotFound { .. } if words(error).contains("NoSuchBucket") => {
                format!("there is no bucket '{name}' at {endpoint}; check Bucket and Endpoint")
            }
            E::NotFound { .. } => format!(
                "there is no object '{key}' in bucket '{name}' at {endpoint}; check Key and VersionID"
            ),
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => format!(
                "'{key}' in bucket '{name}' at {endpoint} is not open to this node; check the \
                 AWS_… variables of its agent: {}",
                words(error)
            ),
            E::Precondition { .. } => {
                format!("object '{key}' in bucket '{name}' changed while it was fetched")
            }
            _ => format!("'{key}' in bucket '{name}' at {endpoint}: {}", words(error)),
        })
    }

    /// A key as the store has it.
    pub(crate) fn path(&self, key: &str) -> Result<Path, Setback> {
        Path::parse(key).map_err(|error| {
            let message = format!("Key '{key}' cannot be asked for: {}", words(&error));
            Setback::Lasting(Failure::task(message))
        })
    }
}

// === impl Connector ===

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.0.client().clone()))
    }
}

/// An error with its causes, as far as they say more.
fn words(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = inner.source();
    }
    text
}
