//! Fingerprints under the seed's recipe. The digests were made by Python's `hashlib` and `json`.

use http::{HeaderMap, HeaderValue, Method};
use oncekey_core::fingerprint::{Body, Canonical, Operation};
use oncekey_core::{Fingerprint, Recipe};

/// A body, the formula, and the digest of `POST /orders` with it.
#[rustfmt::skip]
const MADE_BY_PYTHON: &[(&[u8], &str, &str)] = &[
    (b"{\"b\":1.0,\"a\":1e2,\"a\":2}", "compact", "223b3b77672c8ad45f51d238ea64aa48ec5a8cd542766cf8a73ba9b1eebef532"),
    (b"{\"b\":1.0,\"a\":1e2,\"a\":2}", "spaced", "a3fe279a3ff388da3c6078cb2ba91a0558a5b85f6c0807c1217ae9ab9cbf81eb"),
    (b"{\"b\":1.0,\"a\":1e2,\"a\":2}", "compact utf8", "223b3b77672c8ad45f51d238ea64aa48ec5a8cd542766cf8a73ba9b1eebef532"),
    (b"{\"b\":1.0,\"a\":1e2,\"a\":2}", "joined", "9c753740eeb0a85b5b9c298e360ccd07098efbf11f0b70cc7db0f07bafecfa31"),
    (b"{\"b\":1.0,\"a\":1e2,\"a\":2}", "document", "58d49d1aa0a7df61c78e00d1b0283306a04610d720c173787752e86b54114268"),
    (b"{\"name\":\"Zo\xc3\xab \xf0\x9f\x98\x80\x7f\",\"n\":12345678901234567890,\"x\":[1e16,1e-5,0.1,123456789012345680.0,-0.0,-0,1E400,0.0001]}", "compact", "f87f9cbb744ccfc604e79bc50f33be5acc46413c98cd13d95517274a141cd5ff"),
    (b"{\"name\":\"Zo\xc3\xab \xf0\x9f\x98\x80\x7f\",\"n\":12345678901234567890,\"x\":[1e16,1e-5,0.1,123456789012345680.0,-0.0,-0,1E400,0.0001]}", "spaced", "24415a56294123abc88913b373c3195ada441e159ff2bae038188a6cc100d049"),
    (b"{\"name\":\"Zo\xc3\xab \xf0\x9f\x98\x80\x7f\",\"n\":12345678901234567890,\"x\":[1e16,1e-5,0.1,123456789012345680.0,-0.0,-0,1E400,0.0001]}", "compact utf8", "b2a4aeff72173739284a2a9b77634edf9eb6ee34d4973e17583126a399c573d8"),
    (b"{\"name\":\"Zo\xc3\xab \xf0\x9f\x98\x80\x7f\",\"n\":12345678901234567890,\"x\":[1e16,1e-5,0.1,123456789012345680.0,-0.0,-0,1E400,0.0001]}", "joined", "4c7e2f2fcc5abc0c397eb177cd425383e5b3f55883cde65475b94240aaa2d51b"),
    (b"{\"name\":\"Zo\xc3\xab \xf0\x9f\x98\x80\x7f\",\"n\":12345678901234567890,\"x\":[1e16,1e-5,0.1,123456789012345680.0,-0.0,-0,1E400,0.0001]}", "document", "7b3c4e5ed1c4040c1972d263338084461cf198ee32940d314e7b10dbc93ebf51"),
    (b" {\"t\":\"a\\u0000\\n\\/\\\"\",\"z\":null,\"y\":[true,false,{}]} ", "compact", "114d26d74ec8b1aabbf2efdc24f480ac59c6c1656227f71fb74579ee1d2d1f0b"),
    (b" {\"t\":\"a\\u0000\\n\\/\\\"\",\"z\":null,\"y\":[true,false,{}]} ", "spaced", "171da5380d94d226b30300b562fbe87de2d7b2d3064c0931cf7d3607ab7adb67"),
    (b" {\"t\":\"a\\u0000\\n\\/\\\"\",\"z\":null,\"y\":[true,false,{}]} ", "compact utf8", "114d26d74ec8b1aabbf2efdc24f480ac59c6c1656227f71fb74579ee1d2d1f0b"),
    (b" {\"t\":\"a\\u0000\\n\\/\\\"\",\"z\":null,\"y\":[true,false,{}]} ", "joined", "4a110edc90b797f2eda470e70d7620444c522c8ddc1d31e7a89998e0bd8a0798"),
    (b" {\"t\":\"a\\u0000\\n\\/\\\"\",\"z\":null,\"y\":[true,false,{}]} ", "document", "bc4b35373332590cd2c5a40a5f52e600f8203b66947f57eca3669596685fb81f"),
    (b"\"x\"", "compact", "ba2df4903a2c14e86dc3bcca58911b44ac1d2514b7227bf6eb08cfb978f55a1b"),
    (b"\"x\"", "spaced", "ba2df4903a2c14e86dc3bcca58911b44ac1d2514b7227bf6eb08cfb978f55a1b"),
    (b"\"x\"", "compact utf8", "ba2df4903a2c14e86dc3bcca58911b44ac1d2514b7227bf6eb08cfb978f55a1b"),
    (b"\"x\"", "joined", "e4822bf2a110902c04249fee88d8241ef78237bd11e2d00dc3b81fbe26ad113f"),
    (b"\"x\"", "document", "811db385a90b3d270e5a1026b9ecb0fed75f7b031628423d0a33d8e5eea8bef8"),
    (b"12", "compact", "6b51d431df5d7f141cbececcf79edf3dd861c3b4069f0b11661a3eefacbba918"),
    (b"12", "spaced", "6b51d431df5d7f141cbececcf79edf3dd861c3b4069f0b11661a3eefacbba918"),
    (b"12", "compact utf8", "6b51d431df5d7f141cbececcf79edf3dd861c3b4069f0b11661a3eefacbba918"),
    (b"12", "joined", "4f9741959edbc83acc0bf862d86f4593ac27ab6ae78a9e2b518b8744145ad1d8"),
    (b"12", "document", "eebd60b0fbf9b62ccb9a996504e353ae5206ca4d8d06a8699652cc970a2aaf3a"),
];

fn fingerprint(method: &Method, path: &str, body: &[u8], recipe: &Recipe) -> Fingerprint {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    let body = Body::under_no_coding(body);
    let operation = Operation { method, path, query: Some("a=1"), headers: &headers, body: &body };
    let fingerprint = Fingerprint::of(&operation, recipe);
    assert_eq!(fingerprint, Canonical::of(&operation, recipe).fingerprint());
    fingerprint
}

fn recipe(digest: &str) -> Recipe {
    format!("seed {digest}").parse().expect("a recipe")
}

#[test]
fn a_retry_meets_the_digest_that_python_made() {
    for (body, formula, digest) in MADE_BY_PYTHON {
        let found = fingerprint(&Method::POST, "/orders", body, &recipe(digest));
        assert_eq!(found.to_string(), *digest, "{formula} of {}", String::from_utf8_lossy(body));
    }
}

#[test]
fn another_body_meets_none() {
    for (_, formula, digest) in MADE_BY_PYTHON {
        let found = fingerprint(&Method::POST, "/orders", br#"{"amount":1201}"#, &recipe(digest));
        assert_ne!(found.to_string(), *digest, "{formula}");
    }
}

/// Where method and path were part of it, they count.
#[test]
fn another_path_meets_no_formula_that_has_it() {
    for (body, formula, digest) in
        MADE_BY_PYTHON.iter().filter(|(_, formula, _)| ["joined", "document"].contains(formula))
    {
        for (method, path) in [(Method::PUT, "/orders"), (Method::POST, "/orders/1")] {
            assert_ne!(fingerprint(&method, path, body, &recipe(digest)).to_string(), *digest, "{formula}");
        }
    }
}

#[test]
fn what_is_no_json_counts_as_its_bytes() {
    let digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    assert_eq!(fingerprint(&Method::POST, "/orders", b"hello", &recipe(digest)).to_string(), digest);
    assert_ne!(fingerprint(&Method::POST, "/orders", b"hello ", &recipe(digest)).to_string(), digest);
}

#[test]
fn the_recipe_has_one_text() {
    let digest = MADE_BY_PYTHON[0].2;
    assert_eq!(recipe(digest).to_string(), format!("seed {digest}"));
    let upper = digest.to_uppercase();
    for text in [
        "seed",
        "seed ",
        "seed 00",
        &format!("seed {upper}"),
        &format!("seed {digest} headers=a"),
        &format!("v2 {digest}"),
    ] {
        assert!(text.parse::<Recipe>().is_err(), "{text}");
    }
}
