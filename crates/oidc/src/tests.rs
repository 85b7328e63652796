//! Tokens of an issuer on a real socket, good and forged, and an issuer that is away.

use std::sync::Arc;
use std::time::Duration;

use peers::issuer::{
    Algorithm, Issuer, SigningKey, unix_seconds, unsigned, with_public_key_as_secret,
};
use rustls::crypto::ring;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::{
    Claims, Client, Flow, InvalidToken, KEYS_SERVE, MAX_TOKEN_BYTES, Now, Provider, ProviderError,
    SEED_BYTES, UNKNOWN_KEY_INTERVAL, Verifier, VerifyError,
};

const AUDIENCE: &str = "jobs";

fn verifier(issuer: &Issuer) -> Verifier {
    Verifier::new(Provider::new(issuer.url(), None).unwrap(), vec![AUDIENCE.to_owned()])
}

/// So long after the first request.
fn after(uptime: Duration) -> Now {
    Now { unix_seconds: unix_seconds(), uptime: Duration::from_secs(1000) + uptime }
}

async fn verified(verifier: &Verifier, token: &str) -> Result<Claims, VerifyError> {
    verifier.verify(token, None, after(Duration::ZERO)).await
}

fn is_away(outcome: Result<Claims, VerifyError>) -> bool {
    matches!(outcome, Err(VerifyError::Unavailable(_)))
}

#[tokio::test]
async fn good_tokens_of_every_algorithm_are_taken() {
    let issuer = Issuer::start().await;
    let keys = [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];
    let keys = keys.map(|algorithm| SigningKey::new(algorithm, &format!("{algorithm:?}")));
    issuer.publish(keys.to_vec());
    let verifier = verifier(&issuer);
    for key in &keys {
        let claims = issuer.claims(AUDIENCE, &json!({ "groups": ["platform"] }));
        let verified = verified(&verifier, &key.sign(&claims)).await.unwrap();
        assert_eq!(verified.subject, "ada");
        assert_eq!(verified.all["groups"], json!(["platform"]));
    }
    assert_eq!(issuer.reads(), 1);
}

#[tokio::test]
async fn claims_of_a_token_for_somebody_else_are_refused() {
    let issuer = Issuer::start().await;
    let verifier = verifier(&issuer);
    let now = unix_seconds();
    let claim = InvalidToken::Claim;
    for (more, expected) in [
        (json!({}), None),
        (json!({ "aud": ["jobs"] }), None),
        (json!({ "aud": ["jobs", "other"], "azp": "jobs" }), None),
        (json!({ "exp": now - 30 }), None),
        (json!({ "nbf": now + 30, "iat": now + 30 }), None),
        (json!({ "exp": 1e9 + 0.5 }), Some(InvalidToken::Expired)),
        (json!({ "aud": "other" }), Some(InvalidToken::Audience)),
        (json!({ "aud": "jobs2" }), Some(InvalidToken::Audience)),
        (json!({ "aud": ["other"] }), Some(InvalidToken::Audience)),
        (json!({ "aud": [] }), Some(InvalidToken::Audience)),
        (json!({ "aud": null }), Some(claim("aud"))),
        (json!({ "aud": ["jobs", "other"] }), Some(InvalidToken::AuthorizedParty)),
        (json!({ "aud": ["jobs", "x"], "azp": "x" }), Some(InvalidToken::AuthorizedParty)),
        (json!({ "iss": "http://127.0.0.1:1" }), Some(InvalidToken::Issuer)),
        (json!({ "iss": [issuer.url()] }), Some(InvalidToken::Issuer)),
        (json!({ "iss": null }), Some(claim("iss"))),
        (json!({ "exp": now - 61 }), Some(InvalidToken::Expired)),
        (json!({ "exp": "9999999999" }), Some(claim("exp"))),
        (json!({ "exp": null }), Some(claim("exp"))),
        (json!({ "nbf": now + 90 }), Some(InvalidToken::NotYetValid)),
        (json!({ "iat": now + 90 }), Some(InvalidToken::NotYetValid)),
        (json!({ "nbf": "x" }), Some(claim("nbf"))),
        (json!({ "sub": null }), Some(claim("sub"))),
        (json!({ "sub": "" }), Some(claim("sub"))),
        (json!({ "sub": 7 }), Some(claim("sub"))),
    ] {
        let outcome = verified(&verifier, &issuer.token(AUDIENCE, &more)).await;
        assert_eq!(outcome.map(drop).err(), expected.map(VerifyError::Invalid), "{more}");
    }
}

#[tokio::test]
async fn forged_tokens_are_refused() {
    let issuer = Issuer::start().await;
    let verifier = verifier(&issuer);
    let (key, claims) = (issuer.key(), issuer.claims(AUDIENCE, &json!({})));
    let with = |name: &str, value: Value| {
        let mut header = key.header();
        header[name] = value;
        header
    };
    let good = key.sign(&claims);
    let (message, signature) = good.rsplit_once('.').unwrap();
    let other = issuer.claims(AUDIENCE, &json!({ "sub": "eve" }));
    let other = key.sign(&other);
    let swapped = format!("{}.{signature}", other.rsplit_once('.').unwrap().0);
    // A key of the forger's, under the name of a known one and in the header.
    let forger = SigningKey::new(Algorithm::Es256, "first");
    let own_key = |name: &str, value: Value| {
        let mut header = forger.header();
        header[name] = value;
        header["kid"] = json!("forged");
        forger.sign_as(&header, &claims)
    };
    let url = json!("http://127.0.0.1:1/keys");
    for (token, expected) in [
        (unsigned(&claims), InvalidToken::Algorithm),
        (with_public_key_as_secret(&key, &claims), InvalidToken::Algorithm),
        (key.sign_as(&with("alg", json!("RS384")), &claims), InvalidToken::Algorithm),
        (key.sign_as(&with("alg", json!("ES256")), &claims), InvalidToken::UnknownKey),
        (forger.sign(&claims), InvalidToken::UnknownKey),
        (forger.sign_as(&key.header(), &claims), InvalidToken::Signature),
        (format!("{message}."), InvalidToken::Signature),
        (swapped, InvalidToken::Signature),
        (key.sign_as(&with("kid", json!("unknown")), &claims), InvalidToken::UnknownKey),
        (own_key("jwk", forger.public()), InvalidToken::UnknownKey),
        (own_key("jku", url.clone()), InvalidToken::UnknownKey),
        (own_key("x5u", url), InvalidToken::UnknownKey),
        (key.sign_as(&with("typ", json!("at+jwt")), &claims), InvalidToken::Header),
        (key.sign_as(&with("crit", json!(["exp"])), &claims), InvalidToken::Header),
        (String::new(), InvalidToken::Malformed),
        ("a.b.c".to_owned(), InvalidToken::Malformed),
        (message.to_owned(), InvalidToken::Malformed),
        (format!("{good}{}", "A".repeat(MAX_TOKEN_BYTES)), InvalidToken::TooLong),
    ] {
        let outcome = verified(&verifier, &token).await;
        assert_eq!(outcome.unwrap_err(), VerifyError::Invalid(expected), "{token}");
    }
    // In the header of a good token, such keys say nothing either.
    let good = key.sign_as(&with("jwk", forger.public()), &claims);
    verified(&verifier, &good).await.unwrap();
    assert_eq!(issuer.reads(), 2);
}

#[tokio::test]
async fn a_nonce_binds_a_token_to_its_sign_in() {
    let issuer = Issuer::start().await;
    let verifier = verifier(&issuer);
    let now = after(Duration::ZERO);
    let token = issuer.token(AUDIENCE, &json!({ "nonce": "n" }));
    verifier.verify(&token, Some("n"), now).await.unwrap();
    assert_eq!(crate::nonce_of(&token).as_deref(), Some("n"));
    for token in [token, issuer.token(AUDIENCE, &json!({}))] {
        let outcome = verifier.verify(&token, Some("m"), now).await;
        assert_eq!(outcome.unwrap_err(), InvalidToken::Nonce.into());
    }
}

#[tokio::test]
async fn a_new_key_is_found_and_one_that_was_rotated_away_is_refused() {
    let issuer = Issuer::start().await;
    let verifier = verifier(&issuer);
    let (first, second) = (issuer.key(), SigningKey::new(Algorithm::EdDsa, "second"));
    let claims = issuer.claims(AUDIENCE, &json!({}));
    verified(&verifier, &first.sign(&claims)).await.unwrap();
    issuer.publish(vec![second.clone()]);
    // The issuer has not said so yet.
    verified(&verifier, &first.sign(&claims)).await.unwrap();
    verified(&verifier, &second.sign(&claims)).await.unwrap();
    let outcome = verified(&verifier, &first.sign(&claims)).await;
    assert_eq!(outcome.unwrap_err(), InvalidToken::UnknownKey.into());
    // A key that is withdrawn is refused within the hour.
    let third = SigningKey::new(Algorithm::Es256, "third");
    issuer.publish(vec![third]);
    let hour = Duration::from_hours(1);
    let outcome = verifier.verify(&second.sign(&claims), None, after(hour)).await;
    assert_eq!(outcome.unwrap_err(), InvalidToken::UnknownKey.into());
}

#[tokio::test]
async fn a_flood_of_unknown_keys_asks_the_issuer_every_30_seconds_at_most() {
    let issuer = Issuer::start().await;
    let verifier = verifier(&issuer);
    let claims = issuer.claims(AUDIENCE, &json!({}));
    let forger = SigningKey::new(Algorithm::EdDsa, "unknown");
    let token = forger.sign(&claims);
    let flood = async |at: Duration| {
        for _ in 0..50 {
            let outcome = verifier.verify(&token, None, after(at)).await;
            assert_eq!(outcome.unwrap_err(), InvalidToken::UnknownKey.into());
        }
        issuer.reads()
    };
    // Once because nothing was there, once for the key.
    assert_eq!(flood(Duration::ZERO).await, 2);
    assert_eq!(flood(UNKNOWN_KEY_INTERVAL - Duration::from_millis(1)).await, 2);
    assert_eq!(flood(UNKNOWN_KEY_INTERVAL).await, 3);
    verified(&verifier, &issuer.token(AUDIENCE, &json!({}))).await.unwrap();
}

#[tokio::test]
async fn many_first_tokens_at_once_ask_the_issuer_once() {
    let issuer = Issuer::start().await;
    let verifier = Arc::new(verifier(&issuer));
    let token = issuer.token(AUDIENCE, &json!({}));
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (verifier, token) = (Arc::clone(&verifier), token.clone());
        all.spawn(async move { verified(&verifier, &token).await.unwrap() });
    }
    assert_eq!(all.join_all().await.len(), 20);
    assert_eq!(issuer.reads(), 1);
}

#[tokio::test]
async fn the_keys_of_an_issuer_that_is_away_serve_for_a_day() {
    let issuer = Issuer::start().await;
    let verifier = verifier(&issuer);
    let token = issuer.token(AUDIENCE, &json!({}));
    let at = async |age: Duration| verifier.verify(&token, None, after(age)).await;
    issuer.be_away(true);
    assert!(is_away(at(Duration::ZERO).await));
    // A flood does not reach an issuer in trouble.
    issuer.be_away(false);
    assert!(is_away(at(Duration::ZERO).await));
    assert_eq!(issuer.reads(), 0);
    let first = Duration::from_secs(1);
    at(first).await.unwrap();

    issuer.be_away(true);
    for age in [Duration::from_hours(2), KEYS_SERVE - Duration::from_secs(1)] {
        at(first + age).await.unwrap();
    }
    // It is unknown whether it has such a key.
    let unknown = SigningKey::new(Algorithm::Es256, "unknown");
    let unknown = unknown.sign(&issuer.claims(AUDIENCE, &json!({})));
    let late = after(first + KEYS_SERVE - Duration::from_secs(1));
    assert!(is_away(verifier.verify(&unknown, None, late).await));
    assert!(is_away(at(first + KEYS_SERVE).await));
    issuer.be_away(false);
    at(first + KEYS_SERVE + Duration::from_secs(2)).await.unwrap();
}

#[tokio::test]
async fn an_issuer_speaks_for_itself_and_sends_nobody_elsewhere() {
    let issuer = Issuer::start().await;
    let slash = Provider::new(&format!("{}/", issuer.url()), None).unwrap();
    let error = slash.discover().await.unwrap_err();
    assert!(
        matches!(&error, ProviderError::Invalid { reason, .. } if reason.contains("is of the issuer"))
    );
    issuer.say_keys_are_at("http://keys.example.com/");
    let error = Provider::new(issuer.url(), None).unwrap().discover().await.unwrap_err();
    assert!(
        matches!(&error, ProviderError::Invalid { reason, .. } if reason.contains("neither https nor"))
    );
    // The endpoint of codes redirects; that of keys must not.
    issuer.say_keys_are_at(&format!(
        "{0}/authorize?response_type=code&code_challenge_method=S256&redirect_uri={0}/jwks",
        issuer.url()
    ));
    let token = issuer.token(AUDIENCE, &json!({}));
    assert!(is_away(verified(&verifier(&issuer), &token).await));
    assert_eq!(issuer.reads(), 0);
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_not_read_to_its_end() {
    let issuer = Issuer::start().await;
    issuer.pad_metadata(1 << 20);
    let error = Provider::new(issuer.url(), None).unwrap().discover().await.unwrap_err();
    assert!(error.to_string().contains("longer than 1048576 bytes"), "{error}");
    issuer.pad_metadata(1 << 19);
    Provider::new(issuer.url(), None).unwrap().discover().await.unwrap();
}

/// Goes the way of a browser, and returns the ID token.
async fn signed_in(issuer: &Issuer, secret: Option<&str>) -> Result<String, ProviderError> {
    const BACK: &str = "http://127.0.0.1:1/callback";
    let provider = Provider::new(issuer.url(), None).unwrap();
    let metadata = provider.discover().await.unwrap();
    let secret = secret.map(str::to_owned);
    let client = Client { id: AUDIENCE.to_owned(), secret, scopes: "openid email".to_owned() };
    let flow = Flow::of_seed(&[7; SEED_BYTES]);
    let url = flow.authorization_url(&provider, &metadata, &client, BACK).unwrap();
    let browser = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    let browser = browser.build().unwrap();
    let returned = async || {
        let sent = browser.get(&url).send().await.unwrap();
        let location = sent.headers()["location"].to_str().unwrap().to_owned();
        let query = location.strip_prefix(BACK).unwrap().strip_prefix('?').unwrap().to_owned();
        flow.callback(issuer.url(), &query).unwrap()
    };
    // A code is useless without its verifier.
    let thief = Flow::of_seed(&[8; SEED_BYTES]);
    let stolen = returned().await;
    let refused = thief.redeem(&provider, &metadata, &client, &stolen, BACK).await.unwrap_err();
    assert!(matches!(refused, ProviderError::Refused(_)), "{refused}");
    let callback = returned().await;
    let token = flow.redeem(&provider, &metadata, &client, &callback, BACK).await?;
    let now = after(Duration::ZERO);
    let verified = verifier(issuer).verify(&token, Some(flow.nonce()), now).await.unwrap();
    assert_eq!(verified.subject, "ada");
    Ok(token)
}

#[tokio::test]
async fn a_code_is_redeemed_with_the_verifier_and_the_secret_of_the_client() {
    const SECRET: &str = "s:e+c ret%";
    let issuer = Issuer::start().await;
    signed_in(&issuer, None).await.unwrap();
    issuer.ask_for_secret(SECRET);
    signed_in(&issuer, Some(SECRET)).await.unwrap();
    for wrong in [None, Some("other")] {
        let error = signed_in(&issuer, wrong).await.unwrap_err();
        assert!(matches!(&error, ProviderError::Refused(said) if said.contains("invalid_client")));
    }
    issuer.ask_for_secret_in_form(SECRET);
    signed_in(&issuer, Some(SECRET)).await.unwrap();
}

/// TLS in front of an issuer: its URL, and its CA in PEM. It runs until the test ends.
async fn behind_tls(issuer: &Issuer) -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::default();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = parameters.self_signed(&key).unwrap().pem();
    let authority = rcgen::Issuer::new(parameters, key);
    let key = rcgen::KeyPair::generate().unwrap();
    let own = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let chain = vec![own.signed_by(&key, &authority).unwrap().der().clone()];
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let plain = issuer.url().trim_start_matches("http://").to_owned();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, plain) = (acceptor.clone(), plain.clone());
            tokio::spawn(async move {
                // A client that does not trust the certificate closes the connection.
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut behind = TcpStream::connect(plain).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut behind).await;
            });
        }
    });
    issuer.be_known_as(&url);
    (url, ca)
}

#[tokio::test]
async fn the_certificate_of_an_issuer_is_verified_with_its_ca() {
    let (issuer, other) = (Issuer::start().await, Issuer::start().await);
    let (url, ca) = behind_tls(&issuer).await;
    let (_, other) = behind_tls(&other).await;
    let token = issuer.token(AUDIENCE, &json!({}));
    let with = async |ca: Option<&str>| {
        let provider = Provider::new(&url, ca).unwrap();
        verified(&Verifier::new(provider, vec![AUDIENCE.to_owned()]), &token).await
    };
    with(Some(&ca)).await.unwrap();
    assert!(is_away(with(None).await));
    assert!(is_away(with(Some(&other)).await));
}
