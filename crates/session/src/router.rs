//! What all sessions of a router share. It does not know any of them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use exec::{Budget, Herd};

use crate::apart::Apart;
use crate::cancel::CancelRegistry;
use crate::doors::Doors;
use crate::encoding::Encodings;
use crate::login::LoginConfig;
use crate::metrics::Metrics;

/// What one message may take.
pub struct Limits {
    pub message_bytes_max: usize,
}

/// Settings of the router that a session may change for itself.
#[derive(Clone, Debug)]
pub struct RouterDefaults {
    pub shards: i32,
}

/// What all sessions share, with how they log in and are cancelled.
pub struct Router {
    pub herd: Arc<Herd>,
    /// Where it listens.
    pub address: String,
    pub cancels: Arc<CancelRegistry>,
    pub login: LoginConfig,
    pub limits: Limits,
    /// Of prepared statements.
    pub budget: Arc<Budget>,
    /// Where large statements are worked on.
    pub apart: Apart,
    pub doors: Arc<Doors>,
    pub defaults: RouterDefaults,
    pub metrics: Metrics,
    pub encodings: Encodings,
    /// ParameterStatus a new session is greeted with, as home reports them.
    pub parameters: Arc<ArcSwap<Vec<(String, String)>>>,
}
