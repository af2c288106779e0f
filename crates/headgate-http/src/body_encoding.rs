//! Compresses request bodies.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use headgate_core::options::BodyEncoding;

/// The zstd level: fast, and small enough.
const ZSTD_LEVEL: i32 = 3;

/// Returns a body, compressed.
///
/// # Panics
/// The process is out of memory.
pub(crate) fn compressed(body: &[u8], encoding: BodyEncoding) -> Vec<u8> {
    match encoding {
        BodyEncoding::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            let written = encoder.write_all(body).and_then(|()| encoder.finish());
            written.expect("memory takes what is written")
        }
        BodyEncoding::Zstd => zstd::bulk::compress(body, ZSTD_LEVEL).expect("memory takes what is written"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_body_survives_compression() {
        let body = b"again and again ".repeat(1000);
        let gzip = compressed(&body, BodyEncoding::Gzip);
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(&gzip[..]).read_to_end(&mut back).expect("gzip");
        assert_eq!(body, back);
        let zstd = compressed(&body, BodyEncoding::Zstd);
        assert_eq!(body, zstd::bulk::decompress(&zstd, body.len()).expect("zstd"));
        assert!(gzip.len() < 200 && zstd.len() < 200);
    }
}
