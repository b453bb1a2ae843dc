//! Connections with TLS: a server counts only if its certificate is from an authority that is trusted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

use std::sync::Arc;

use plugin_sdk::{SignalSource, with_causes};
use plugins_prometheus::{Alertmanager, Server};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Starts a server named localhost, without alerts, whose certificate is of this authority. Returns its address.
async fn serve(authority: &CertifiedIssuer<'static, KeyPair>) -> String {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth();
    let config = config
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust the certificate ends the connection here.
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                stream.read_buf(&mut request).await.unwrap();
            }
            let head =
                "HTTP/1.1 200 OK\r\nDate: Tue, 24 Nov 2026 14:02:00 GMT\r\nContent-Length: 2\r\n";
            let answer = format!("{head}Content-Type: application/json\r\n\r\n[]");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    format!("https://localhost:{port}")
}

#[tokio::test]
async fn server_of_a_private_authority_is_trusted_only_with_its_certificate() {
    let (ours, other) = (authority(), authority());
    let address = serve(&ours).await;
    let server = || Server::at(&address).unwrap();
    let trusting = server().ca(&ours.pem()).unwrap();
    let read = Alertmanager::new(trusting).unwrap().firing().await;
    assert_eq!(read.unwrap().firing, []);
    for server in [server(), server().ca(&other.pem()).unwrap()] {
        let error = Alertmanager::new(server)
            .unwrap()
            .firing()
            .await
            .unwrap_err();
        let error = with_causes(&*error);
        assert!(error.contains("certificate"), "{error}");
    }
}
