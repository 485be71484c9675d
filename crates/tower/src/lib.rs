//! The HTTP face of oncekey: a tower layer over the engine.

mod body;
mod route;

pub use body::{BodyError, RequestBody, ResponseBody};
pub use route::{Guard, Route, RouteError, Routes};
