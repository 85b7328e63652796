//! S3-compatible buckets, for inputs and results.
//!
//! Credentials, and the endpoint when a job names none, come from the agent's `AWS_…` variables.
//! They are used for the operator's own endpoint and those that the settings list, and there for
//! the buckets that the settings list. Any other endpoint is untrusted: it is subject to the egress
//! policy, and its requests are not signed. Credentials that a job names sign its requests to the
//! hosts and buckets that they are for, and then the node's are not used.

mod answers;
mod words;

use std::io;

use agent_core::execution::Failure;
use api_types::credential::{CredentialType, CredentialValue, Login, Server};
use api_types::text::unparsed_url;
use async_trait::async_trait;
use http::Method;
use http_body_util::{BodyExt, Limited};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use reqwest::Url;

use crate::data::egress::EgressClient;
use crate::data::egress::addresses::EgressPolicy;
use crate::data::retry::{AttemptError, RetryPolicy};
use crate::host::settings::{AwsVariables, S3Settings, Settings};
use words::words;

/// The region when neither the job nor the agent names one; most other services ignore it.
const DEFAULT_REGION: &str = "us-east-1";

/// Any of these variables indicates credentials, or that none are needed.
const CREDENTIALS: [&str; 5] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
];

/// Bytes of an answer that is not an object: a page of 1,000 keys of 1,024 bytes, each escaped, with
/// room for everything else that services write.
const MAX_ANSWER_BYTES: usize = 16 << 20;

#[derive(Debug, Clone)]
pub(crate) struct Buckets {
    variables: AwsVariables,
    trusted: S3Settings,
    /// For endpoints that jobs name.
    client: EgressClient,
    /// For the operator's endpoint.
    own_client: EgressClient,
    retry: RetryPolicy,
}

/// A bucket that is ready for requests.
pub(crate) struct Bucket {
    pub(crate) store: AmazonS3,
    pub(crate) name: String,
    pub(crate) region: String,
    /// Its location, for messages.
    pub(crate) endpoint: String,
    signs: Signs,
    /// The name of the credentials that sign, if the task names some.
    credential: String,
}

/// A bucket as a job names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BucketRef<'a> {
    pub(crate) bucket: &'a str,
    pub(crate) region: &'a str,
    pub(crate) endpoint: &'a str,
    signs: Signs,
}

/// With what requests are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signs {
    AsNode,
    WithCredentials,
    Not,
}

/// Gives the store a client that applies the egress policy.
#[derive(Debug)]
struct Connector(EgressClient);

// === impl Buckets ===

impl Buckets {
    pub(crate) fn new(settings: &Settings, client: EgressClient, retry: RetryPolicy) -> Self {
        Self {
            variables: settings.aws.clone(),
            trusted: settings.s3.clone(),
            client,
            own_client: EgressClient::new(EgressPolicy::Anywhere),
            retry,
        }
    }

    /// Whether the node has credentials; without, every request of a task that names none
    /// would fail.
    pub(crate) fn has_credentials(&self) -> bool {
        let given = |name: &str| self.variables.0.get(name).is_some_and(|value| !value.is_empty());
        CREDENTIALS.iter().any(|name| given(name))
    }

    /// Why a job's bucket is invalid, judging by its specification alone.
    pub(crate) fn admit(&self, named: BucketRef<'_>) -> Result<(), String> {
        let BucketRef { bucket, region, endpoint, signs } = named;
        if bucket.is_empty() {
            return Err("its Params need a Bucket".to_owned());
        }
        // Both become part of a host name or a path.
        if !is_name(bucket, "._-") {
            return Err(format!("its Bucket '{bucket}' is not the name of a bucket"));
        }
        if !region.is_empty() && !is_name(region, "-") {
            return Err(format!("its Region '{region}' is not the name of a region"));
        }
        if signs != Signs::WithCredentials && self.is_trusted(endpoint) {
            if !self.trusted.allows_bucket(bucket) {
                return Err(format!(
                    "bucket '{bucket}' is not one that this node's settings allow (s3.buckets)"
                ));
            }
        } else if !endpoint.is_empty() {
            let url = Url::parse(endpoint)
                .ok()
                .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
                .ok_or_else(|| format!("its Endpoint {} is no web URL", unparsed_url(endpoint)))?;
            // The operator vouches for the way to the endpoints that the settings list.
            if !self.is_trusted(endpoint) {
                self.client.check(&url).map_err(|refused| refused.to_string())?;
            }
        }
        Ok(())
    }

    /// Opens the bucket without any request. An empty region or endpoint means the node's own, or
    /// Amazon's for credentials that the task names.
    pub(crate) fn open(
        &self,
        named: BucketRef<'_>,
        credential: Option<&CredentialValue>,
    ) -> Result<Bucket, AttemptError> {
        let of_task = |reason| AttemptError::Permanent(Failure::task(reason));
        let BucketRef { bucket, region, endpoint, .. } = named;
        self.admit(named).map_err(of_task)?;
        let is_trusted = !endpoint.is_empty() && self.is_trusted(endpoint);
        let (builder, signs, endpoint, region, client) = match credential {
            Some(value) => {
                let server = Server::Bucket { endpoint, bucket };
                let allowed = value.scope().check(CredentialType::S3, &server);
                allowed.map_err(|refused| AttemptError::permanent(refused.to_string()))?;
                let client = if is_trusted { &self.own_client } else { &self.client };
                let region = if region.is_empty() { DEFAULT_REGION } else { region };
                (signed(value), Signs::WithCredentials, endpoint, region, client)
            }
            None => {
                let is_trusted = self.is_trusted(endpoint);
                let own_region = self.own_region().unwrap_or(DEFAULT_REGION);
                let region = if region.is_empty() { own_region } else { region };
                match is_trusted {
                    true => {
                        let own = self.own_endpoint().unwrap_or_default();
                        let endpoint = if endpoint.is_empty() { own } else { endpoint };
                        (self.signed(), Signs::AsNode, endpoint, region, &self.own_client)
                    }
                    false => {
                        let builder = AmazonS3Builder::new().with_skip_signature(true);
                        (builder, Signs::Not, endpoint, region, &self.client)
                    }
                }
            }
        };
        let mut builder = builder;
        if !endpoint.is_empty() {
            builder = builder.with_endpoint(endpoint);
        }
        let store = builder
            .with_bucket_name(bucket)
            .with_region(region)
            .with_http_connector(Connector(client.clone()))
            .with_retry(self.retry())
            .build()
            .map_err(|error| {
                AttemptError::permanent(format!("bucket '{bucket}': {}", words(&error)))
            })?;
        Ok(Bucket {
            store,
            name: bucket.to_owned(),
            region: region.to_owned(),
            signs,
            credential: credential.map(|value| value.name.clone()).unwrap_or_default(),
            endpoint: match endpoint {
                "" => format!("Amazon S3 ({region})"),
                endpoint => endpoint.to_owned(),
            },
        })
    }

    /// Signs requests with the node's credentials.
    fn signed(&self) -> AmazonS3Builder {
        let mut builder = AmazonS3Builder::new();
        for (name, value) in &self.variables.0 {
            // The same names as in every other program that reads these variables; unknown ones
            // belong to other programs.
            if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
                builder = builder.with_config(key, value);
            }
        }
        builder
    }

    /// Whether the operator vouches for the endpoint: the variables name it, or the settings.
    fn is_trusted(&self, endpoint: &str) -> bool {
        let plain = |endpoint: &str| endpoint.trim_end_matches('/').to_owned();
        endpoint.is_empty()
            || self.own_endpoint().is_some_and(|own| plain(own) == plain(endpoint))
            || self.trusted.endpoints.iter().any(|listed| plain(listed) == plain(endpoint))
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

    /// The store retries each request itself, and resumes broken responses.
    fn retry(&self) -> RetryConfig {
        let RetryPolicy { tries, first, longest } = self.retry;
        RetryConfig {
            backoff: BackoffConfig { init_backoff: first, max_backoff: longest, base: 2.0 },
            max_retries: tries.saturating_sub(1) as usize,
            ..RetryConfig::default()
        }
    }
}

/// Signs requests with the credentials of a namespace.
fn signed(value: &CredentialValue) -> AmazonS3Builder {
    let Login { access_key_id, secret_access_key, session_token, .. } = &value.login;
    let builder = AmazonS3Builder::new()
        .with_access_key_id(access_key_id)
        .with_secret_access_key(secret_access_key);
    match session_token.as_str() {
        "" => builder,
        token => builder.with_token(token),
    }
}

// === impl BucketRef ===

impl<'a> BucketRef<'a> {
    pub(crate) fn new(
        bucket: &'a str,
        region: &'a str,
        endpoint: &'a str,
        credentials: &str,
    ) -> Self {
        let signs = match credentials {
            "" => Signs::AsNode,
            _ => Signs::WithCredentials,
        };
        Self { bucket, region, endpoint, signs }
    }
}

// === impl Connector ===

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Bounded(self.0.client().clone())))
    }
}

/// Bounds every answer that is taken into memory as a whole: listings and errors, whatever a
/// hostile endpoint sends. Objects are streamed.
#[derive(Debug)]
struct Bounded(reqwest::Client);

#[async_trait]
impl HttpService for Bounded {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_object = request.method() == Method::GET
            && !request.uri().query().is_some_and(|query| query.contains("list-type="));
        let response = self.0.call(request).await?;
        if is_object && response.status().is_success() {
            return Ok(response);
        }
        Ok(response.map(|body| {
            HttpResponseBody::new(Limited::new(body, MAX_ANSWER_BYTES).map_err(|error| {
                let beyond = format!("its answer is larger than {MAX_ANSWER_BYTES} bytes");
                match error.downcast::<HttpError>() {
                    Ok(broken) => *broken,
                    Err(_) => HttpError::new(HttpErrorKind::Decode, io::Error::other(beyond)),
                }
            }))
        }))
    }
}

/// Whether a text of a job can stand in a host name or path without changing its meaning.
fn is_name(text: &str, also: &str) -> bool {
    /// The longest name of a bucket, of any service.
    const MAX_BYTES: usize = 255;
    text.len() <= MAX_BYTES
        && !text.contains("..")
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.chars().all(|part| part.is_ascii_alphanumeric() || also.contains(part))
}
