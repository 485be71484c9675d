//! A set of keys (RFC 7517), and which of them may verify which token.

use std::fmt;

use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, EllipticCurveKeyParameters, Jwk, KeyOperations, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;

/// The most keys of a set: each may be tried for a token that names none.
const MOST: usize = 100;

/// The least length of a shared secret that isn't worth a warning, in bytes (RFC 7518, 3.2).
const LEAST_SECRET: usize = 32;

/// The keys of a set that can verify a signature.
pub(super) struct KeySet(Vec<Key>);

/// A key, bound to the algorithms of its own type: a token's header never makes an RSA key the secret of an HMAC.
struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    verifies: DecodingKey,
}

#[derive(Deserialize)]
struct Written {
    keys: Vec<serde_json::Value>,
}

impl KeySet {
    /// Reads a set. Keys of another use, type or curve are passed over; a set without any that can be used is an error.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let written: Written = serde_json::from_slice(text).map_err(|_| "it is no JSON Web Key Set".to_owned())?;
        if written.keys.len() > MOST {
            return Err(format!("it holds {} keys; the most is {MOST}", written.keys.len()));
        }
        let known = written.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        let keys: Vec<_> = known.filter_map(|jwk| Key::of(&jwk)).collect();
        if keys.is_empty() {
            return Err("it holds no key that can verify a token".to_owned());
        }
        Ok(Self(keys))
    }

    /// The keys that may verify a token: those that it names, and those without a name, of the type of its algorithm.
    pub(super) fn for_token<'a>(
        &'a self,
        id: Option<&'a str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &'a DecodingKey> {
        let named = move |key: &&Key| id.is_none() || key.id.is_none() || key.id.as_deref() == id;
        let fits = move |key: &&Key| key.algorithms.contains(&algorithm);
        self.0.iter().filter(named).filter(fits).map(|key| &key.verifies)
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySet({})", self.0.len())
    }
}

impl Key {
    fn of(jwk: &Jwk) -> Option<Self> {
        let algorithms = algorithms(jwk);
        if algorithms.is_empty() || !verifies(jwk) {
            return None;
        }
        let key = DecodingKey::from_jwk(jwk).ok()?;
        if key.family() == AlgorithmFamily::Hmac && key.try_get_as_bytes().is_ok_and(|key| key.len() < LEAST_SECRET) {
            tracing::warn!("a shared secret of the key set is shorter than {LEAST_SECRET} bytes, and can be guessed");
        }
        Some(Self { id: jwk.common.key_id.clone(), algorithms, verifies: key })
    }
}

/// Whether a key is there to verify with, as far as it says.
fn verifies(jwk: &Jwk) -> bool {
    let used = jwk.common.public_key_use.as_ref().is_none_or(|used| *used == PublicKeyUse::Signature);
    let operations = jwk.common.key_operations.as_ref();
    used && operations.is_none_or(|operations| operations.contains(&KeyOperations::Verify))
}

/// The algorithms that a key may be used with: those of its type, or of them the one that it names.
fn algorithms(jwk: &Jwk) -> Vec<Algorithm> {
    let of_type = match &jwk.algorithm {
        AlgorithmParameters::OctetKey(_) => AlgorithmFamily::Hmac.algorithms().to_vec(),
        AlgorithmParameters::RSA(_) => AlgorithmFamily::Rsa.algorithms().to_vec(),
        AlgorithmParameters::EllipticCurve(EllipticCurveKeyParameters { curve: EllipticCurve::P256, .. }) => {
            vec![Algorithm::ES256]
        }
        AlgorithmParameters::EllipticCurve(EllipticCurveKeyParameters { curve: EllipticCurve::P384, .. }) => {
            vec![Algorithm::ES384]
        }
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => vec![Algorithm::EdDSA],
        _ => Vec::new(),
    };
    match jwk.common.key_algorithm {
        None => of_type,
        Some(named) => match Algorithm::try_from(named) {
            Ok(named) => of_type.into_iter().filter(|algorithm| *algorithm == named).collect(),
            Err(_) => Vec::new(),
        },
    }
}
