"""The connection against real servers on loopback: TLS verification, limits, and a message for every failure."""

import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from forebay.telemetry.prometheus.prometheus_connection import PrometheusConnection, RequestLimits
from forebay.telemetry.prometheus.prometheus_options import PrometheusOptions
from forebay.telemetry.scrape_failure import ScrapeFailed, ScrapeFailure

ONE = {"status": "success", "data": {"resultType": "scalar", "result": [1.0, "1"]}}


@dataclass
class Server:
    """A server that answers by `answer` and records the queries."""

    answer: "Callable[[BaseHTTPRequestHandler], None]"
    url: str = ""
    asked: list[dict[str, list[str]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)


@contextmanager
def a_server(answer: Callable[[BaseHTTPRequestHandler], None], certificate: Path | None = None) -> Iterator[Server]:
    server = Server(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append(parse_qs(urlsplit(self.path).query))
            server.headers.append(dict(self.headers))
            server.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Ignored, because in some tests the client closes the connection."""

    with Quiet(("127.0.0.1", 0), Handler) as http:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            http.socket = context.wrap_socket(http.socket, server_side=True)
        server.url = f"{'https' if certificate else 'http'}://127.0.0.1:{http.server_port}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.ending.set()
            http.shutdown()
            thread.join()


def says(body: object, status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    return answer


def asked(
    server: Server, bounds: RequestLimits | None = None, *, ca_file: Path | None = None, token_file: Path | None = None
) -> object:
    options = PrometheusOptions(url=server.url, ca_file=ca_file, token_file=token_file)
    connection = PrometheusConnection(options, bounds)
    try:
        return connection.ask('up{a="1 & 2"}[5s]', 1234.5)
    finally:
        connection.close()


def refused(
    server: Server, bounds: RequestLimits | None = None, *, ca_file: Path | None = None, token_file: Path | None = None
) -> ScrapeFailed:
    with pytest.raises(ScrapeFailed) as error:
        asked(server, bounds, ca_file=ca_file, token_file=token_file)
    assert str(error.value).startswith(server.url)
    return error.value


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The key and the self-signed certificate of a server on loopback."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "prometheus")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "server.pem"
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return file


def test_a_query_and_its_answer():
    with a_server(says(ONE)) as server:
        assert asked(server) == [1.0, "1"]

        assert server.asked == [{"query": ['up{a="1 & 2"}[5s]'], "time": ["1234.500"], "timeout": ["10s"]}]
        assert "Authorization" not in server.headers[0]


def test_a_certificate_of_the_given_authority_is_trusted_and_the_token_sent(certificate, tmp_path):
    token = tmp_path / "token"
    token.write_text("first\n")
    with a_server(says(ONE), certificate) as server:
        connection = PrometheusConnection(PrometheusOptions(server.url, ca_file=certificate, token_file=token))
        connection.ask("time()")
        token.write_text("second")
        connection.ask("time()")
        connection.close()

        assert [headers["Authorization"] for headers in server.headers] == ["Bearer first", "Bearer second"]


def test_an_untrusted_certificate_is_refused(certificate, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    with a_server(says(ONE), certificate) as server:
        error = refused(server)

        assert error.failure is ScrapeFailure.CONNECTION
        assert "its certificate is not trusted" in str(error)
        assert server.asked == []


@pytest.mark.parametrize("content", [None, "", "two words", "é"], ids=["absent", "empty", "no token", "not ASCII"])
def test_an_unreadable_token_fails_the_query(certificate, tmp_path, content):
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
    with a_server(says(ONE), certificate) as server:
        error = refused(server, ca_file=certificate, token_file=token)

        assert error.failure is ScrapeFailure.CONNECTION
        assert str(token) in str(error)
        assert server.asked == []


def test_proxies_and_passwords_of_the_environment_are_ignored(monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with a_server(says(ONE)) as server:
        assert asked(server) == [1.0, "1"]
        assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize(
    ("answer", "failure", "message"),
    [
        pytest.param(says({}, 503), ScrapeFailure.STATUS, "HTTP Status Code 503", id="an error"),
        pytest.param(says({}, 302, Location="/other"), ScrapeFailure.STATUS, "HTTP Status Code 302", id="a redirect"),
        pytest.param(says(b"<html>"), ScrapeFailure.MALFORMED, "not from the Prometheus API", id="a page"),
        pytest.param(says([]), ScrapeFailure.MALFORMED, "not from the Prometheus API", id="another API"),
        pytest.param(says({"data": None}), ScrapeFailure.MALFORMED, "not from the Prometheus API", id="no data"),
        pytest.param(
            says(b"[" * 900_000), ScrapeFailure.MALFORMED, "not from the Prometheus API", id="nested without end"
        ),
    ],
)
def test_invalid_responses_are_failures(answer, failure, message):
    with a_server(answer) as server:
        error = refused(server)

        assert error.failure is failure
        assert message in str(error)
        assert len(server.asked) == 1, "nothing is asked twice"


def test_a_refused_connection_is_a_failure():
    with a_server(says(ONE)) as server:
        pass
    assert refused(server).failure is ScrapeFailure.CONNECTION


def test_a_truncated_response_is_a_failure():
    def cut(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000")
        request.end_headers()
        request.wfile.write(b'{"status":')

    with a_server(cut) as server:
        assert refused(server).failure is ScrapeFailure.CONNECTION


def test_an_endless_response_is_abandoned():
    with a_server(says(b" " * 2000)) as server:
        assert refused(server, RequestLimits(max_bytes=1000)).failure is ScrapeFailure.TOO_LARGE


def test_a_slow_response_is_abandoned():
    """Each byte arrives in time, but the whole answer does not."""

    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        while not server.ending.wait(0.05):
            request.wfile.write(b" ")

    with a_server(drip) as server:
        assert refused(server, RequestLimits(timeout_seconds=1)).failure is ScrapeFailure.TIMEOUT


def test_a_silent_server_is_abandoned():
    def wait(_: BaseHTTPRequestHandler) -> None:
        server.ending.wait()

    with a_server(wait) as server:
        assert refused(server, RequestLimits(timeout_seconds=1)).failure is ScrapeFailure.TIMEOUT
