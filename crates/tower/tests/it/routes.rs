//! Which requests a route guards, and which routes are refused (K7).

use http::{Method, Request};
use oncekey_tower::{RouteError, Routes, ScopeReader};

use crate::bodies::full;
use crate::harness::*;

fn route(methods: &[Method], path: Option<&str>) -> oncekey_tower::Route {
    let route = governed(path.unwrap_or("*"), |_| {});
    oncekey_tower::Route { methods: methods.to_vec(), path: path.map(str::to_owned), ..route }
}

async fn guards(routes: &[oncekey_tower::Route], method: Method, path: &str) -> Option<String> {
    let world = Setup { routes: routes.to_vec(), ..Setup::default() }.start(Upstream::counting()).await;
    world.send(post("k").method(method).uri(path).body(full("")).unwrap()).await;
    let counted = world.counted();
    assert_eq!(counted.len(), 1, "{counted:?}");
    let ((route, outcome), _) = counted.into_iter().next().unwrap();
    (outcome != "unguarded").then_some(route)
}

#[tokio::test(start_paused = true)]
async fn paths_are_exact_or_have_parameters_or_tails() {
    let routes = [route(&[Method::POST], Some("/orders/{id}/pay")), route(&[Method::POST], Some("/files/{*rest}"))];
    for (path, guarded) in [
        ("/orders/7/pay", Some("/orders/{id}/pay")),
        ("/orders/7/pay?now=1", Some("/orders/{id}/pay")),
        ("/orders/7/pay/", None),
        ("/orders/7/8/pay", None),
        ("/orders//pay", None),
        ("/Orders/7/pay", None),
        ("/files/a", Some("/files/{*rest}")),
        ("/files/a/b/c", Some("/files/{*rest}")),
        ("/", None),
    ] {
        assert_eq!(guards(&routes, Method::POST, path).await.as_deref(), guarded, "{path}");
    }
    assert_eq!(guards(&routes, Method::PUT, "/files/a").await, None);
}

#[tokio::test(start_paused = true)]
async fn the_more_exact_path_of_another_method_hides_no_route() {
    let routes = [
        route(&[Method::PUT], Some("/orders/special")),
        route(&[Method::POST], Some("/orders/{id}")),
        route(&[Method::POST, Method::DELETE], None),
    ];
    for (method, path, guarded) in [
        (Method::POST, "/orders/special", Some("/orders/{id}")),
        (Method::PUT, "/orders/special", Some("/orders/special")),
        (Method::PUT, "/orders/7", None),
        (Method::DELETE, "/orders/special", Some("*")),
        (Method::POST, "/else", Some("*")),
    ] {
        assert_eq!(guards(&routes, method.clone(), path).await.as_deref(), guarded, "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_path_with_a_parameter_is_not_the_tail_of_another_method() {
    let routes = [route(&[Method::PUT], Some("/a/{*rest}")), route(&[Method::POST], Some("/a/{x}"))];
    assert_eq!(guards(&routes, Method::POST, "/a/b/c").await, None);
    assert_eq!(guards(&routes, Method::POST, "/a/b").await.as_deref(), Some("/a/{x}"));
    assert_eq!(guards(&routes, Method::PUT, "/a/b/c").await.as_deref(), Some("/a/{*rest}"));
}

#[test]
fn routes_that_can_not_work_are_refused() {
    let refused = |routes: Vec<oncekey_tower::Route>| Routes::new(routes).unwrap_err();
    for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
        assert_eq!(refused(vec![route(&[Method::POST, method.clone()], None)]), RouteError::SafeMethod(method));
    }
    assert!(matches!(refused(vec![route(&[Method::POST], Some("/a/{"))]), RouteError::Pattern(..)));
    assert!(matches!(refused(vec![route(&[Method::POST], Some("/{*rest}/a"))]), RouteError::Pattern(..)));
    for path in [Some("/a"), Some("/a/{x}"), None] {
        let twice = vec![route(&[Method::POST], path), route(&[Method::PUT, Method::POST], path)];
        assert_eq!(refused(twice), RouteError::Overlap(Method::POST, path.unwrap_or("*").to_owned()));
    }
    for (first, second) in [("/a/{x}", "/a/{y}"), ("/a/{*rest}", "/a/{x}")] {
        let both = vec![route(&[Method::POST], Some(first)), route(&[Method::POST], Some(second))];
        assert_eq!(refused(both), RouteError::Ambiguous(Method::POST, first.to_owned(), second.to_owned()));
    }
}

#[test]
fn a_source_that_no_record_can_name_is_refused() {
    for name in ["", "a\nb", &"x".repeat(256)] {
        let mut nameless = route(&[Method::POST], None);
        nameless.guard.scope = vec![ScopeReader::new(name, |_| Ok(None))];
        assert_eq!(Routes::new(vec![nameless]).unwrap_err(), RouteError::ScopeSource(name.to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn one_key_on_two_routes_is_one_key() {
    let setup = Setup { routes: vec![orders(), governed("/refunds", |_| {})], ..Setup::default() };
    let world = setup.start(Upstream::counting()).await;
    world.send(order("k")).await;
    let refund = Request::post("/refunds").header("Idempotency-Key", "k").header("X-Account-Id", "acc-1");
    let refund = refund.header("Content-Type", "application/json").body(full(r#"{"amount":1200}"#)).unwrap();
    assert_eq!(problem(&world.send(refund).await), Some("key-reused"));
    assert_eq!(world.runs(), 1);
}
