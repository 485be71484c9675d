//! Tokens that are believed and tokens that aren't; and keys that come, change and go.

mod believing;
mod refreshing;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use oncekey_store::ManualClock;
use oncekey_store_test::START;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256, PublicKeyData};
use serde_json::{Value, json};

use super::keys::KeySet;
use super::tokens::Tokens;
use super::{Jwks, JwtConfig};

/// Whoever makes tokens: a private key and its name.
struct Issuer {
    algorithm: Algorithm,
    id: Option<&'static str>,
    key: EncodingKey,
    public: Value,
}

impl Issuer {
    fn new(algorithm: Algorithm, id: Option<&'static str>) -> Self {
        let generated = |of| KeyPair::generate_for(of).unwrap();
        let key = match algorithm {
            Algorithm::ES256 => EncodingKey::from_ec_der(&generated(&PKCS_ECDSA_P256_SHA256).serialize_der()),
            Algorithm::ES384 => EncodingKey::from_ec_der(&generated(&PKCS_ECDSA_P384_SHA384).serialize_der()),
            Algorithm::EdDSA => {
                let pair = generated(&PKCS_ED25519);
                let x = URL_SAFE_NO_PAD.encode(pair.der_bytes());
                let public = json!({ "kty": "OKP", "crv": "Ed25519", "x": x, "alg": "EdDSA" });
                return Self { algorithm, id, key: EncodingKey::from_ed_der(&pair.serialize_der()), public };
            }
            Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 => EncodingKey::from_secret(&[7; 64]).unwrap(),
            _ => EncodingKey::from_rsa_pem(generated(&PKCS_RSA_SHA256).serialize_pem().as_bytes()).unwrap(),
        };
        let public = serde_json::to_value(Jwk::from_encoding_key(&key, algorithm).unwrap()).unwrap();
        Self { algorithm, id, key, public }
    }

    /// A member of a key set.
    fn public(&self) -> Value {
        let mut key = self.public.clone();
        key["kid"] = json!(self.id);
        key
    }

    fn sign(&self, claims: &Value) -> String {
        self.sign_as(self.algorithm, self.id, claims)
    }

    fn sign_as(&self, algorithm: Algorithm, id: Option<&str>, claims: &Value) -> String {
        let header = Header { kid: id.map(str::to_owned), ..Header::new(algorithm) };
        jsonwebtoken::encode(&header, claims, &self.key).unwrap()
    }
}

fn set(keys: &[Value]) -> Vec<u8> {
    json!({ "keys": keys }).to_string().into_bytes()
}

/// The time at which all tests begin, in seconds.
fn now() -> i64 {
    START.as_micros() / 1_000_000
}

/// Claims that are right for an hour.
fn claims() -> Value {
    json!({ "sub": "acc-1", "exp": now() + 3600, "iss": "https://issuer.example", "aud": ["other", "orders"] })
}

fn config() -> JwtConfig {
    JwtConfig {
        jwks: Jwks::File("unused".into()),
        issuer: Some("https://issuer.example".to_owned()),
        audience: vec!["payments".to_owned(), "orders".to_owned()],
        leeway: Duration::from_mins(1),
    }
}

fn tokens(keys: &[Value]) -> (Arc<Tokens>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(START));
    let keys = KeySet::parse(&set(keys)).expect("keys");
    (Arc::new(Tokens::new(&config(), keys, clock.clone())), clock)
}
