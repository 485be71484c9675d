//! What is verified of a token.

use http::Request;
use oncekey_tower::{Guard, InvalidScope};

use super::super::tokens::Refused;
use super::*;

const ALL: [Algorithm; 12] = [
    Algorithm::HS256,
    Algorithm::HS384,
    Algorithm::HS512,
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

fn refused(tokens: &Tokens, token: &str) -> Refused {
    tokens.verify(token.as_bytes()).expect_err("it isn't to be believed")
}

#[test]
fn each_algorithm_verifies_with_its_own_key_and_with_no_other() {
    let issuers = ALL.map(|algorithm| Issuer::new(algorithm, None));
    for (index, issuer) in issuers.iter().enumerate() {
        let (own, _) = tokens(&[issuer.public()]);
        let believed = own.verify(issuer.sign(&claims()).as_bytes()).expect("its own");
        assert_eq!(believed["sub"], "acc-1", "{:?}", issuer.algorithm);
        // Shared secrets are one here, and still an algorithm that the key doesn't name is none of it.
        for other in issuers.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| other) {
            assert_eq!(refused(&own, &other.sign(&claims())), Refused::Signature, "{:?}", other.algorithm);
        }
        let (all, _) = tokens(&issuers.iter().map(Issuer::public).collect::<Vec<_>>());
        assert!(all.verify(issuer.sign(&claims()).as_bytes()).is_ok(), "among many without names");
    }
}

/// The classical confusion: a public key, which everybody has, taken as the secret of an HMAC.
#[test]
fn a_public_key_is_never_a_secret() {
    for algorithm in [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA] {
        let issuer = Issuer::new(algorithm, Some("k"));
        let mut public = issuer.public();
        public.as_object_mut().unwrap().remove("alg");
        let (tokens, _) = tokens(&[public.clone()]);
        for secret in [public["n"].as_str(), public["x"].as_str()].into_iter().flatten() {
            let decoded = URL_SAFE_NO_PAD.decode(secret).unwrap();
            for secret in [secret.as_bytes(), &decoded] {
                let forger = Issuer {
                    algorithm: Algorithm::HS256,
                    id: Some("k"),
                    key: EncodingKey::from_secret(secret).unwrap(),
                    public: Value::Null,
                };
                assert_eq!(refused(&tokens, &forger.sign(&claims())), Refused::Signature);
            }
        }
        assert!(tokens.verify(issuer.sign(&claims()).as_bytes()).is_ok(), "the control");
    }
}

#[test]
fn what_is_not_signed_is_no_token() {
    let issuer = Issuer::new(Algorithm::ES256, None);
    let (tokens, _) = tokens(&[issuer.public()]);
    let signed = issuer.sign(&claims());
    let (message, signature) = signed.rsplit_once('.').unwrap();
    let payload = message.split_once('.').unwrap().1;
    for header in [json!({ "alg": "none" }), json!({ "alg": "NONE" }), json!({ "alg": "XS256" }), json!({})] {
        let header = URL_SAFE_NO_PAD.encode(header.to_string());
        for signature in ["", signature] {
            assert_eq!(refused(&tokens, &format!("{header}.{payload}.{signature}")), Refused::Malformed);
        }
    }
    for text in ["", ".", "..", "a.b.c", message, "\u{e9}"] {
        assert_eq!(refused(&tokens, text), Refused::Malformed, "{text}");
    }
    assert_eq!(refused(&tokens, &format!("{message}.")), Refused::Signature);
    let forged = URL_SAFE_NO_PAD.encode(json!({ "sub": "acc-2", "exp": now() + 9 }).to_string());
    let header = message.split_once('.').unwrap().0;
    assert_eq!(refused(&tokens, &format!("{header}.{forged}.{signature}")), Refused::Signature);
}

#[test]
fn a_key_is_chosen_by_its_name_and_one_without_a_name_by_its_type() {
    let (a, b) = (Issuer::new(Algorithm::ES256, Some("a")), Issuer::new(Algorithm::ES256, Some("b")));
    let nameless = Issuer::new(Algorithm::ES256, None);
    let (tokens, _) = tokens(&[a.public(), b.public(), nameless.public()]);
    let believes =
        |issuer: &Issuer, id| tokens.verify(issuer.sign_as(Algorithm::ES256, id, &claims()).as_bytes()).is_ok();
    assert!(believes(&a, Some("a")) && believes(&b, Some("b")));
    assert!(!believes(&a, Some("b")) && !believes(&a, Some("c")), "another name is another key");
    assert!(believes(&a, None) && believes(&b, None));
    assert!(believes(&nameless, Some("c")) && believes(&nameless, None));
}

#[test]
fn keys_of_another_use_are_none() {
    let issuer = Issuer::new(Algorithm::RS256, None);
    let with = |name: &str, value: Value| {
        let mut key = issuer.public();
        key[name] = value;
        key
    };
    let unusable = [
        with("use", json!("enc")),
        with("key_ops", json!(["sign"])),
        with("alg", json!("RSA-OAEP")),
        with("alg", json!("ES256")),
        with("kty", json!("XYZ")),
        json!({ "kty": "EC", "crv": "P-521", "x": "AA", "y": "AA" }),
        json!({ "kty": "OKP", "crv": "X25519", "x": "AA" }),
        json!("key"),
    ];
    assert!(KeySet::parse(&set(&unusable)).is_err());
    for text in ["", "{}", "[]", "{\"keys\": {}}", "{\"keys\": []}"] {
        assert!(KeySet::parse(text.as_bytes()).is_err(), "{text}");
    }
    assert!(KeySet::parse(&set(&vec![issuer.public(); 101])).is_err());
    let mut mixed = unusable.to_vec();
    mixed.push(with("use", json!("sig")));
    let (tokens, _) = tokens(&mixed);
    assert!(tokens.verify(issuer.sign(&claims()).as_bytes()).is_ok(), "one that can be used is enough");
}

#[test]
fn times_are_checked_by_the_clock_with_leeway() {
    let issuer = Issuer::new(Algorithm::EdDSA, None);
    let (tokens, clock) = tokens(&[issuer.public()]);
    let judge = |name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        tokens.verify(issuer.sign(&claims).as_bytes()).err()
    };
    assert_eq!(judge("exp", json!(now() - 59)), None);
    assert_eq!(judge("exp", json!(now() - 60)), Some(Refused::Expired));
    assert_eq!(judge("nbf", json!(now() + 60)), None);
    assert_eq!(judge("nbf", json!(now() + 61)), Some(Refused::TooEarly));
    assert_eq!(judge("exp", json!(0.5)), Some(Refused::Expired));
    assert_eq!(judge("exp", json!(-1)), Some(Refused::Expired));
    for (name, why) in [("exp", Refused::NoExpiry), ("nbf", Refused::TooEarly)] {
        for value in [json!("tomorrow"), json!(null), json!([])] {
            assert_eq!(judge(name, value), Some(why), "{name}");
        }
    }
    let mut eternal = claims();
    eternal.as_object_mut().unwrap().remove("exp");
    assert_eq!(refused(&tokens, &issuer.sign(&eternal)), Refused::NoExpiry);
    let token = issuer.sign(&claims());
    clock.advance(Duration::from_secs(3659));
    assert!(tokens.verify(token.as_bytes()).is_ok());
    clock.advance(Duration::from_secs(1));
    assert_eq!(refused(&tokens, &token), Refused::Expired);
}

#[test]
fn issuer_and_audience_must_be_those_that_are_set() {
    let issuer = Issuer::new(Algorithm::ES256, None);
    let (tokens, _) = tokens(&[issuer.public()]);
    let judge = |name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        tokens.verify(issuer.sign(&claims).as_bytes()).err()
    };
    for wrong in [json!("https://issuer.example/"), json!(["https://issuer.example"]), json!(null), json!("")] {
        assert_eq!(judge("iss", wrong), Some(Refused::Issuer));
    }
    for right in [json!("orders"), json!(["payments"]), json!(["x", "orders"])] {
        assert_eq!(judge("aud", right), None);
    }
    for wrong in [json!("Orders"), json!([]), json!(null), json!(["x"]), json!([["orders"]])] {
        assert_eq!(judge("aud", wrong), Some(Refused::Audience));
    }
    let anyones = JwtConfig { issuer: None, audience: Vec::new(), ..config() };
    let keys = KeySet::parse(&set(&[issuer.public()])).unwrap();
    let tokens = Tokens::new(&anyones, keys, Arc::new(ManualClock::at(START)));
    assert!(tokens.verify(issuer.sign(&json!({ "exp": now() + 1 })).as_bytes()).is_ok());
}

/// What a route makes of an `Authorization` field.
fn read(tokens: &Arc<Tokens>, claim: &str, authorization: &[&str]) -> Result<Option<String>, InvalidScope> {
    let lines = authorization.iter().fold(Request::builder(), |request, line| request.header("Authorization", *line));
    let (head, ()) = lines.body(()).unwrap().into_parts();
    tokens.read(&head, claim)
}

#[test]
fn a_text_or_a_whole_number_is_a_scope_and_nothing_else_is() {
    let issuer = Issuer::new(Algorithm::ES256, None);
    let (tokens, _) = tokens(&[issuer.public()]);
    let claim = |name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        read(&tokens, name, &[&format!("Bearer {}", issuer.sign(&claims))])
    };
    assert_eq!(claim("tenant", json!("acc-2")), Ok(Some("acc-2".to_owned())));
    assert_eq!(claim("tenant", json!(42)), Ok(Some("42".to_owned())));
    assert_eq!(claim("tenant", json!(u64::MAX)), Ok(Some(u64::MAX.to_string())));
    assert_eq!(claim("https://x/claim.of", json!("v")), Ok(Some("v".to_owned())), "a name, not a path");
    for value in [json!(1.5), json!(1e30), json!(true), json!(null), json!(["a"]), json!({ "a": "b" })] {
        assert!(claim("tenant", value.clone()).is_err(), "{value}");
    }
    let nested =
        issuer.sign(&json!({ "exp": now() + 1, "iss": "https://issuer.example", "aud": "orders", "a": { "b": "c" } }));
    assert_eq!(read(&tokens, "a.b", &[&format!("Bearer {nested}")]), Ok(None), "no such claim is no value");
}

#[test]
fn no_token_is_no_value_and_a_token_that_is_not_believed_is_an_error_that_does_not_repeat_it() {
    let issuer = Issuer::new(Algorithm::ES256, None);
    let (tokens, clock) = tokens(&[issuer.public()]);
    let token = issuer.sign(&claims());
    for none in [&[][..], &["Basic YTpi"], &["Bearer"], &["Bearer  "], &[""], &[token.as_str()], &["Bearerx y"]] {
        assert_eq!(read(&tokens, "sub", none), Ok(None), "{none:?}");
    }
    for spelled in ["Bearer ", "bearer  ", "BEARER "] {
        assert_eq!(read(&tokens, "sub", &[&format!("{spelled}{token}")]), Ok(Some("acc-1".to_owned())));
    }
    let line = format!("Bearer {token}");
    assert!(read(&tokens, "sub", &[&line, &line]).is_err());
    clock.advance(Duration::from_hours(2));
    let expired = read(&tokens, "sub", &[&line]).expect_err("expired").to_string();
    assert_eq!(expired, "Send a token that can be verified, and keep the key: it has expired.");
    let garbage = read(&tokens, "sub", &["Bearer secret-token"]).expect_err("no token").to_string();
    assert!(!garbage.contains("secret"), "{garbage}");
}

#[test]
fn the_source_is_named_after_the_claim() {
    let (tokens, _) = tokens(&[Issuer::new(Algorithm::ES256, None).public()]);
    let guard = Guard { scope: vec![tokens.reader("jwt:sub", "sub")], ..Guard::default() };
    assert_eq!(guard.scope[0].source(), "jwt:sub");
}
