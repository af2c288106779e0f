//! Runs the name server until it is ended: `cargo run --release -p headgate-testserver --example names -- [DELAY_MS]`.

use std::io::{self, Write};
use std::time::Duration;

use headgate_testserver::{DnsConfig, DnsServer};

fn main() -> io::Result<()> {
    let mistake = |_| io::Error::new(io::ErrorKind::InvalidInput, "the delay must be a number of milliseconds");
    let delay_ms = std::env::args().nth(1).map(|text| text.parse().map_err(mistake)).transpose()?.unwrap_or_default();
    // Connections to one address alone would run out of local ports.
    let config = DnsConfig { delay: Duration::from_millis(delay_ms), addresses: 250, ..DnsConfig::default() };
    let server = DnsServer::start(config)?;
    writeln!(io::stdout(), "listening on {}", server.address())?;
    // Ends with whoever reads what it says, or asks for the figures by a line.
    for line in io::stdin().lines() {
        line?;
        writeln!(io::stdout(), "{}", server.questions())?;
    }
    Ok(())
}
