//! Runs the DNS server until its standard input closes: `cargo run --release -p headgate-testserver --example names -- [DELAY_MS]`.

use std::io::{self, Write};
use std::time::Duration;

use headgate_testserver::{DnsConfig, DnsServer};

fn main() -> io::Result<()> {
    let mistake = |_| io::Error::new(io::ErrorKind::InvalidInput, "the delay must be a number of milliseconds");
    let delay_ms = std::env::args().nth(1).map(|text| text.parse().map_err(mistake)).transpose()?.unwrap_or_default();
    // With a single address, connections would exhaust the local ports.
    let config = DnsConfig { delay: Duration::from_millis(delay_ms), addresses: 250, ..DnsConfig::default() };
    let server = DnsServer::start(config)?;
    writeln!(io::stdout(), "listening on {}", server.address())?;
    // Prints the number of questions for each line of input, and ends when the input or the output is closed.
    for line in io::stdin().lines() {
        line?;
        writeln!(io::stdout(), "{}", server.questions())?;
    }
    Ok(())
}
