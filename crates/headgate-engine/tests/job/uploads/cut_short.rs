//! Uploads that end before the whole file was sent, because the server has responded or the file has shrunk.

use super::*;

#[test]
fn a_response_before_the_file_was_sent_is_the_response() {
    let held: Mutex<Vec<TcpStream>> = Mutex::default();
    let server = Scripted::start(move |mut stream, number| {
        read_head(&mut stream);
        stream.write_all(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno!").unwrap();
        // The connection is neither read from nor closed, or it is closed.
        if number % 2 == 0 {
            held.lock().unwrap().push(stream);
        }
    });
    let mut uploads = Uploads::new();
    uploads.concurrency = 1;
    File::create(uploads.path("large")).unwrap().set_len(1 << 30).unwrap();
    let large = uploads.piece("large");
    for _ in 0..2 {
        uploads.add(server.url("/"), "PUT", [large.clone()]);
    }
    let ended = uploads.ended();
    assert_eq!((Some(413), None), (ended[0].status, ended[0].error.as_deref()));
    // A reset may discard a response that was sent before it.
    assert!(matches!(
        (ended[1].status, ended[1].error.as_deref()),
        (Some(413), None) | (None, Some("connection_closed"))
    ));
    assert_eq!(2, server.connections(), "the rest of the body is missing: no other request uses the connection");
}

#[test]
fn an_early_response_over_http2_is_the_response_and_the_connection_stays_open() {
    let server = http2::start(100, |peer, _| {
        loop {
            let stream = peer.request()?;
            peer.send(HEADERS, END_HEADERS, stream, &[0x8d])?;
            peer.send(DATA, END_STREAM, stream, b"no!")?;
            peer.reset(stream, NO_ERROR)?;
        }
    });
    let mut uploads = Uploads::new();
    uploads.request.http2_prior_knowledge = true;
    uploads.concurrency = 1;
    File::create(uploads.path("large")).unwrap().set_len(1 << 30).unwrap();
    let large = uploads.piece("large");
    for _ in 0..3 {
        uploads.add(server.url("/"), "PUT", [large.clone()]);
    }
    let seen: Vec<_> = uploads.ended().into_iter().map(|ended| (ended.status, ended.error, ended.body)).collect();
    // 0x8d is `:status: 404` (RFC 7541 appendix A).
    assert_eq!(vec![(Some(404), None, b"no!".to_vec()); 3], seen);
    assert_eq!(1, server.connections());
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_fails_its_row_and_closes_the_connection() {
    let (sender, cut) = std::sync::mpsc::channel();
    let mut uploads = Uploads::new();
    let path = uploads.path("file");
    File::create(&path).unwrap().set_len(1 << 30).unwrap();
    let sender = Mutex::new(sender);
    let server = Scripted::start(move |mut stream, _| {
        read_head(&mut stream);
        File::options().write(true).open(&path).unwrap().set_len(1000).unwrap();
        // The server reads to the end: fewer bytes than announced, and no other request.
        let came = std::io::copy(&mut stream, &mut std::io::sink()).unwrap_or_default();
        sender.lock().unwrap().send(came).unwrap();
    });
    let piece = uploads.piece("file");
    uploads.add(server.url("/"), "PUT", [piece]);
    let ended = uploads.ended();
    let message = "a file of the body was changed while it was sent";
    let path = uploads.path("file").display().to_string();
    assert_eq!(
        (Some("invalid_request"), message, path),
        (ended[0].error.as_deref(), &*ended[0].message, ended[0].detail.clone())
    );
    assert!(cut.recv_timeout(MAX_WAIT).unwrap() < 1 << 30);
    assert_eq!((1, 1), (ended[0].attempts, server.connections()));
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_over_http2_resets_only_its_stream() {
    let mut uploads = Uploads::new();
    let path = uploads.path("file");
    File::create(&path).unwrap().set_len(1 << 30).unwrap();
    let server = http2::start(100, move |peer, _| {
        let stream = peer.request()?;
        File::options().write(true).open(&path).unwrap().set_len(1000).unwrap();
        let update = (1_u32 << 30).to_be_bytes();
        peer.send(WINDOW_UPDATE, 0, 0, &update)?;
        peer.send(WINDOW_UPDATE, 0, stream, &update)?;
        let (mut is_reset, mut replies) = (false, None);
        loop {
            match peer.read()? {
                Frame { kind: RST_STREAM, stream: reset, .. } => is_reset |= reset == stream,
                Frame { kind: HEADERS, stream, .. } => replies = Some(stream),
                _ => {}
            }
            if let Some(stream) = replies.take_if(|_| is_reset) {
                peer.send(HEADERS, END_HEADERS | END_STREAM, stream, STATUS_200)?;
            }
        }
    });
    uploads.request.http2_prior_knowledge = true;
    uploads.concurrency = 1;
    let file = uploads.piece("file");
    uploads.add(server.url("/"), "PUT", [file]);
    uploads.add(server.url("/"), "PUT", [BodyPiece::Bytes("abc".into())]);
    let seen: Vec<_> = uploads.ended().into_iter().map(|ended| (ended.status, ended.error)).collect();
    assert_eq!(vec![(None, Some("invalid_request".into())), (Some(200), None)], seen);
    assert_eq!(1, server.connections());
}
