"""A template with a wrong URL, or with the same URL for every pod, is refused at the start."""

import pytest

from forebay.telemetry.direct.url_template import UrlTemplate
from forebay.telemetry.signal_source import ScrapeTarget


def a_target(ip: str = "10.1.2.3", port: int = 8000) -> ScrapeTarget:
    return ScrapeTarget(uid="u1", namespace="team-a", pod="chat-0", ip=ip, port=port)


@pytest.mark.parametrize(
    ("template", "ip", "url"),
    [
        pytest.param("http://{ip}:{port}/metrics", "10.1.2.3", "http://10.1.2.3:8000/metrics", id="the default"),
        pytest.param("http://{ip}:{port}/metrics", "fd00::7", "http://[fd00::7]:8000/metrics", id="IPv6"),
        pytest.param(
            "http://fleet-sim:9000/{namespace}/{pod}", "10.1.2.3", "http://fleet-sim:9000/team-a/chat-0", id="by path"
        ),
        pytest.param("http://fleet-sim:9000/{namespace}/{pod}", "", "http://fleet-sim:9000/team-a/chat-0", id="no ip"),
        pytest.param("http://{ip}:9400/m", "10.1.2.3", "http://10.1.2.3:9400/m", id="a port of its own"),
    ],
)
def test_a_template_becomes_the_url_of_a_pod(template, ip, url):
    assert UrlTemplate(template).url(a_target(ip=ip)) == url


@pytest.mark.parametrize(
    ("template", "message"),
    [
        pytest.param("https://{ip}:{port}/metrics", "does not start with http://", id="https"),
        pytest.param("{ip}:{port}/metrics", "does not start with http://", id="no scheme"),
        pytest.param("file:///{ip}", "does not start with http://", id="a file"),
        pytest.param("http://fleet-sim/metrics", "is the same for different pods", id="no field"),
        pytest.param("http://fleet-sim/{pod}", "is the same for different pods", id="pod names repeat"),
        pytest.param("http://{host}/metrics", "has the unknown field {host}", id="unknown field"),
        pytest.param("http://{ip.__class__}/", "has the unknown field", id="an attribute"),
        pytest.param("http://{}/", "has the unknown field", id="no name"),
        pytest.param("http://{ip!r}/", "formats a field", id="a conversion"),
        pytest.param("http://{ip:>20}/", "formats a field", id="a format"),
        pytest.param("http://{ip/", "cannot be parsed", id="brace not closed"),
        pytest.param("http:///{ip}", "does not name a host", id="no host"),
        pytest.param("http://{ip}:{port}{port}/", "is not a URL", id="port out of range"),
        pytest.param("http:// {ip}/", "does not name a host", id="a blank"),
        pytest.param("http://user:secret@{ip}/", "must not contain a user or a fragment", id="a password"),
    ],
)
def test_invalid_templates_are_refused(template, message):
    with pytest.raises(ValueError, match=message) as refused:
        UrlTemplate(template)

    assert "the default is http://{ip}:{port}/metrics" in str(refused.value)


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(a_target(ip=""), id="no address yet"),
        pytest.param(a_target(ip="evil/../x"), id="an address that is a path"),
        pytest.param(a_target(port=0), id="no port"),
    ],
)
def test_a_target_without_a_valid_address_is_refused(target):
    with pytest.raises(ValueError, match=r"does not appear to be|is not a port"):
        UrlTemplate("http://{ip}:{port}/metrics").url(target)
