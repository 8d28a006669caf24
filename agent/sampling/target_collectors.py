"""The collectors of a target; for a host on another machine one that reads over HTTP."""

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus

from agent.config.node_exporter import NodeExporterSettings
from agent.config.settings import Config, Target
from agent.support.http_client import (
    REFUSED_LOGIN_STATUSES,
    Access,
    AccessError,
    NoAnswerError,
    UntrustedError,
    read_answer,
    redirect_text,
)
from collectors import CollectorSpec, collectors_with, histograms
from collectors.base import CollectorError, FailureKind
from collectors.device_selection import Devices
from collectors.node_exporter import MAX_BYTES, NODE_COLLECTORS, Fetch

HISTOGRAMS_SECONDS = 5.0
HISTOGRAMS_SHARE = 0.01
"""Largest share of the time: with many digests a reading scans their summary, as `digests` does."""


def collectors_of(config: Config, target: Target) -> tuple[CollectorSpec, ...]:
    """Return all collectors, with this target's host: this machine, or its node_exporter's."""
    remote = page_fetcher(target.node_exporter) if target.node_exporter else None
    return collectors_reading(target, config.resource_settings(target).devices, remote)


def collectors_reading(
    target: Target, named: Devices, remote: Fetch | None = None
) -> tuple[CollectorSpec, ...]:
    """Return all collectors; their host is this machine, with its `named` devices, or `remote`.

    Histograms are read only for digests that have an SLA.
    """
    found = collectors_with(named, remote)
    digests = tuple(dict.fromkeys(sla.digest for sla in target.class_slas))
    return (*found, _histogram_collector(digests)) if digests else found


def _histogram_collector(digests: Sequence[str]) -> CollectorSpec:
    prepare = partial(histograms.prepare, digests=digests)
    return CollectorSpec(
        histograms.NAME, prepare, HISTOGRAMS_SECONDS, on_server=True, max_share=HISTOGRAMS_SHARE
    )


def page_fetcher(settings: NodeExporterSettings) -> Fetch:
    """Return a function that fetches that node_exporter's page; a failure is one line with the URL.

    Passwords, tokens and a changed authority are read again each time. Where one of the collectors
    is switched off, node_exporter refuses the request for them, and the whole page is fetched.
    """
    access = settings.access(settings.timeout)
    url = f"{access.base(settings.EXAMPLE)}/metrics"
    query = urllib.parse.urlencode([("collect[]", name) for name in NODE_COLLECTORS])
    pages = [f"{url}?{query}", url]

    def fetch() -> bytes:
        try:
            request = urllib.request.Request(pages[0], headers=access.authorisation())  # noqa: S310
            page = read_answer(access.opener(), request, access.timeout, MAX_BYTES + 1)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == HTTPStatus.BAD_REQUEST and len(pages) > 1:  # a collector is off there
                selected = pages.pop(0)
                try:
                    return fetch()
                except CollectorError:  # or no page is to be had now
                    pages.insert(0, selected)
                    raise
            raise _failure(url, _refusal_text(error, access, request)) from None
        except UntrustedError as error:
            raise _failure(url, access.untrusted_text(error)) from None
        except NoAnswerError as error:
            remedy = "check the URL, or give a longer timeout"
            raise _failure(url, f"no answer ({error}); {remedy}") from None
        except AccessError as error:
            raise _failure(url, str(error)) from None
        if len(page) > MAX_BYTES:
            raise _failure(url, f"the page is larger than {MAX_BYTES // 2**20} MiB")
        return page

    return fetch


def _refusal_text(
    error: urllib.error.HTTPError, access: Access, request: urllib.request.Request
) -> str:
    if error.code in REFUSED_LOGIN_STATUSES:
        return access.refused_login_text(error.code, request)
    remedy = "check that a node_exporter answers at this URL"
    return redirect_text(error) or f"HTTP status {error.code}; {remedy}"


def _failure(url: str, problem: str) -> CollectorError:
    """Return a failure of a kind that does not end the session with the server."""
    return CollectorError(FailureKind.UNREADABLE, f"{url}: {problem}"[:300])
