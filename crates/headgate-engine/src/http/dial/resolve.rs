//! An origin to the addresses to connect to.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio::time::timeout_at;

use crate::http::dial::names::Names;
use crate::http::dial::names::answer::{Answer, is_lasting};
use crate::http::dial::names::cache::{Cache, Found, MAX_NAMES};
use crate::http::dial::names::config::Config;
use crate::http::dial::names::files::Files;
use crate::model::error::{ErrorKind, Failure};
use crate::model::options::Dns;
use crate::model::origin::{HostName, Origin};
use crate::model::reason::Reason;

/// Looks names up for all workers.
#[derive(Debug)]
pub struct Resolver {
    cache: Arc<Cache>,
    dns: Settings,
    /// Begun with the first name: what has none costs nothing.
    names: OnceLock<Result<Names, String>>,
}

/// Who is asked for names.
#[derive(Debug)]
enum Settings {
    Dns(Dns),
    Config(Config),
}

impl Default for Resolver {
    fn default() -> Self {
        Self::new(Dns::default())
    }
}

impl Resolver {
    pub fn new(dns: Dns) -> Self {
        Self::asking(Settings::Dns(dns))
    }

    /// One that asks as `config` says, and not as the system does.
    pub fn with_config(config: Config) -> Self {
        Self::asking(Settings::Config(config))
    }

    fn asking(dns: Settings) -> Self {
        Self { cache: Arc::new(Cache::new(MAX_NAMES)), dns, names: OnceLock::new() }
    }

    /// Where to connect for an origin: at least one address, in order of preference.
    ///
    /// # Errors
    /// `resolve`: the name has no address, or nobody could say until `by`.
    ///
    /// Cancelling it gives up the look-up, unless others wait for the same name.
    pub async fn resolve(&self, origin: &Origin, by: Instant) -> Result<Vec<SocketAddr>, Failure> {
        let name = match &origin.name {
            HostName::V4(address) => return Ok(vec![SocketAddr::new((*address).into(), origin.port)]),
            HostName::V6(address) => return Ok(vec![SocketAddr::new((*address).into(), origin.port)]),
            HostName::Domain(name) => name,
        };
        match self.look_up(name, by).await {
            Ok(addresses) => Ok(addresses.iter().map(|address| SocketAddr::new(*address, origin.port)).collect()),
            Err(reason) => {
                let failure = Failure::new(ErrorKind::Resolve, Reason::clone(&reason));
                Err(if is_lasting(&reason) { failure.lasting() } else { failure })
            }
        }
    }

    async fn look_up(&self, name: &str, by: Instant) -> Answer {
        let now = Instant::now();
        let names = self.names.get_or_init(|| self.dns.start(now)).as_ref();
        let names = names.map_err(|trouble| Arc::new(trouble.clone().into()))?;
        if let Some(answer) = names.known(name, now) {
            return answer;
        }
        let waiting = match self.cache.find(name, now) {
            Found::Known(answer) => return answer,
            Found::Asked(waiting) => waiting,
            Found::Unknown(look_up, waiting) => {
                names.begin(look_up);
                waiting
            }
        };
        let answer = timeout_at(by.into(), waiting.answer()).await;
        answer.unwrap_or_else(|_| Err(Arc::new("its address was not found in time".into())))
    }

    /// Names that are remembered, and names that are being asked for.
    pub fn names(&self) -> (usize, usize) {
        self.cache.len()
    }
}

impl Settings {
    fn start(&self, now: Instant) -> Result<Names, String> {
        match self {
            Self::Dns(Dns::Configured) => Names::of_files(Files::of_system(None), now),
            Self::Dns(Dns::Server(server)) => Names::of_files(Files::of_system(Some(*server)), now),
            Self::Dns(Dns::System) => Names::of_system(),
            Self::Config(config) => Names::of_servers(config.clone()),
        }
    }
}
