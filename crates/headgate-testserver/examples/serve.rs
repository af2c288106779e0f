//! Runs the server until it is killed: `cargo run --release -p headgate-testserver --example serve -- PORT [THREADS]`.

use std::io::{self, Write};

use headgate_testserver::{Config, Server};

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |what: &str| {
        let mistake = |_| io::Error::new(io::ErrorKind::InvalidInput, format!("{what}: must be a number"));
        arguments.next().map(|text| text.parse::<u16>().map_err(mistake)).transpose()
    };
    let port = number("port")?.unwrap_or_default();
    let threads = number("threads")?.map(usize::from);

    let server = Server::start(Config { port, threads, ..Config::default() })?;
    writeln!(io::stdout(), "listening on http://{}", server.address())?;
    loop {
        std::thread::park();
    }
}
