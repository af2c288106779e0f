//! One listening socket for each worker, all on the same port: the kernel distributes connections between them.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// The bound of connections that wait to be accepted; the kernel reduces it to `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

/// Returns `count` non-blocking listeners on `address`; for port 0, all on the same free port.
pub(crate) fn bind(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    bind_all(address, count).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => "; choose another port, or 0 for a free one",
            io::ErrorKind::PermissionDenied => "; choose a port above 1023, or 0 for a free one",
            io::ErrorKind::AddrNotAvailable => "; choose an address of this machine, as 127.0.0.1",
            _ => "",
        };
        io::Error::new(error.kind(), format!("can't listen on {address}: {error}{advice}"))
    })
}

fn bind_all(mut address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    if address.port() != 0 {
        // With SO_REUSEPORT, a second server of the same user would silently get half of the connections. A socket without it
        // fails if the port is in use. (For port 0, the kernel chooses a free one.)
        socket(address)?.bind(&address.into())?;
    }
    let mut listeners = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = socket(address)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let listener = TcpListener::from(socket);
        address = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok(listeners)
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of an earlier server in TIME_WAIT do not block the port.
    socket.set_reuse_address(true)?;
    Ok(socket)
}
