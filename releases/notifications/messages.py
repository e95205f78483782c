"""Notices: what waits for a reviewer, what was decided, what has ended. On people's own page, and by e-mail.

tell           in the transaction of what it tells: one row for each person, and one for the organisation's addresses
send_waiting   a worker, every few seconds: claims each row and sends its e-mail; nobody waits for a mail server
settle         what asked for a decision is put away once there is one

They say titles, states, amounts asked and granted, and what a reviewer wrote; never anything from a table. Pages are
named by their path: a worker that looked it up in the site's table of contents would import every page.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from smtplib import SMTPDataError, SMTPRecipientsRefused
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.utils import timezone

from releases.engine.domain.privacy import exact
from releases.models import (
    BudgetRequest,
    Dataset,
    MailChoice,
    Notice,
    Organisation,
    Release,
    ReleaseRequest,
    ReleaseState,
    RequestState,
    Session,
    Upload,
    UploadState,
)

if TYPE_CHECKING:
    import uuid

    from django.contrib.auth.models import User

logger = logging.getLogger(__name__)

AnyRequest = BudgetRequest | ReleaseRequest

#: Sent in one go; the next round of a worker sends the rest.
MAX_AT_ONCE = 100
_LONGEST_TITLE = 250
#: From here on a mail server's answer is for good.
_PERMANENT = 500


def request_made(request: AnyRequest) -> None:
    """Tell those who may decide that there is something to decide."""
    _to_reviewers(
        request,
        f"To review: {_asked(request)}",
        f"{request.requested_by} asks for {_asked(request)}. Nothing is spent.",
    )


def first_approval(request: AnyRequest) -> None:
    """Tell the others that a second reviewer has to approve."""
    settle(_review_path(request))
    _to_reviewers(
        request,
        f"To approve as the second: {_asked(request)}",
        f"{request.first_by} approved epsilon {request.first_epsilon}; a second reviewer has to approve it too.",
    )


def request_decided(request: AnyRequest) -> None:
    """Tell who asked what was decided, and put away what asked the reviewers."""
    settle(_review_path(request))
    if request.decided_by_id == request.requested_by_id:
        return
    state = RequestState(request.state)
    title, lines = f"{state.label.capitalize()}: {_asked(request)}", []
    if state is RequestState.APPROVED and request.granted_epsilon:
        lines.append(f"You asked for epsilon {request.epsilon}; epsilon {request.granted_epsilon} was granted.")
        if exact(request.granted_epsilon, field="epsilon") < exact(request.epsilon, field="epsilon"):
            title = f"Approved for less: {_asked(request)}"
            if isinstance(request, ReleaseRequest):
                lines.append("It is a draft again, with that epsilon. Confirm it, and no further review is needed.")
    elif state is not RequestState.APPROVED:
        lines.append("Nothing is spent.")
    if request.note:
        lines.append(f"The reviewer wrote: {request.note}")
    tell([request.requested_by], title=title, text="\n".join(lines), path=_asker_s_path(request))


def request_taken_back(request: AnyRequest) -> None:
    """There is nothing to decide any more."""
    settle(_review_path(request))


def consent_asked(dataset: Dataset, *, request: BudgetRequest, by: User, note: str) -> None:
    """Ask an owner, in a reviewer's words, whether a table of somebody else may spend from the same budget."""
    text = (
        f"{request.requested_by} has asked for a budget for a table that may be about the same people. Tables about "
        f"the same people must spend from one budget, so {by} asks what you say to that. Nothing is changed yet.\n"
        f"The reviewer wrote: {note}"
    )
    title = f"A reviewer asks about {dataset.title}"
    tell([dataset.owner], title=title, text=text, path=f"/datasets/{dataset.pk}/")


def release_ended(release: Release, *, and_tell: User | None = None) -> None:
    """Tell who submitted a release, and somebody who asked for its end, that it is there, or that it failed."""
    state = ReleaseState(release.state)
    path = _session_path(release) if state is ReleaseState.OPEN else f"/releases/{release.pk}/"
    people = _people(release.submitted_by, and_tell)
    tell(people, title=f"{state.label.capitalize()}: {release.title}", text=release.meaning, path=path)


def session_used_up(session: Session, *, answers: int) -> None:
    """Tell who opened a session that it has given its last answer, and what closing it gives."""
    release = session.release
    text = (
        f"It has answered {answers:,} questions and can answer no new one. Close it on its page: what it answered "
        "becomes a release with its error bounds, a receipt, and synthetic rows that follow from the answers, and you "
        "can make that public. Closing spends nothing."
    )
    tell(_people(release.submitted_by), title=f"Used up: {release.title}", text=text, path=_session_path(release))


def session_closing(session: Session) -> None:
    """Put away what asked for it to be used, or closed."""
    settle(_session_path(session.release))


def session_ended(session: Session, *, text: str) -> None:
    """Tell who opened a session that it has closed by itself, and why."""
    release = session.release
    tell(_people(release.submitted_by), title=f"Closed: {release.title}", text=text, path=_session_path(release))


def session_not_closed(session: Session) -> None:
    """Tell who opened a session and who closed it that it is open again."""
    release = session.release
    text = (
        "No worker could publish what it has answered, so it is open again, as if it had never been closed: every "
        "answer is kept, and nothing was spent. Close it again; if that fails too, the server's log says why."
    )
    people = _people(release.submitted_by, session.closed_by)
    tell(people, title=f"Not closed: {release.title}", text=text, path=_session_path(release))


def _people(*people: User | None) -> list[User]:
    """Each of those that there are once."""
    return list(dict.fromkeys(each for each in people if each is not None))


def _session_path(release: Release) -> str:
    return f"/sessions/{release.pk}/"


def upload_ended(upload: Upload) -> None:
    """Tell who sent a table that it is stored, or that it is not. Why it was refused stands on its page alone."""
    state = UploadState(upload.state)
    title = f"{state.label.capitalize()}: {upload.title}"
    tell([upload.owner], title=title, text=state.meaning, path=_upload_path(upload.pk))


def upload_gone(number: uuid.UUID) -> None:
    """Put away what was said of an upload that was discarded, or whose dataset was."""
    settle(_upload_path(number))


def _upload_path(number: uuid.UUID) -> str:
    return f"/uploads/{number}/"


def tell(people: Iterable[User], *, title: str, text: str, path: str, addresses: Iterable[str] = ()) -> None:
    """Note what each is to be told. Called inside the transaction that makes it true, so it is told or not with it.

    Args:
        addresses: e-mail addresses that are nobody's page; those of the people are left out.
    """
    told = list(people)
    unwanted = set(MailChoice.objects.filter(user__in=told, wants_mail=False).values_list("user_id", flat=True))
    rows = [{"person": each, "addresses": "" if each.pk in unwanted else each.email} for each in told]
    others = sorted({address for address in addresses if address} - {each.email for each in told})
    if others:
        rows.append({"person": None, "addresses": "\n".join(others)})
    # A title of somebody's must not add lines to an e-mail's head.
    heading = " ".join(title.split())[:_LONGEST_TITLE]
    now = timezone.now()
    Notice.objects.bulk_create(
        Notice(**row, title=heading, text=text, path=path, sent_at=None if row["addresses"] else now) for row in rows
    )


def settle(path: str) -> None:
    """Put away what was said of a page that has nothing more to ask, and send no e-mail about it that still waits."""
    now = timezone.now()
    about = Notice.objects.filter(path=path)
    about.filter(sent_at=None).update(sent_at=now)
    about.filter(read_at=None).update(read_at=now)


def send_waiting() -> int:
    """Send the e-mail of every notice that nobody has sent yet; returns how many were sent."""
    waiting = list(Notice.objects.filter(sent_at=None).order_by("pk")[:MAX_AT_ONCE])
    if not waiting:
        return 0
    sent = 0
    try:
        with get_connection() as connection:
            for notice in waiting:
                sent += _send(notice, connection)
    except OSError as error:
        # Nobody waits for a mail server that is away; the next round of a worker tries again.
        logger.warning("e-mail could not be sent and waits (%s)", type(error).__name__)
    return sent


def _send(notice: Notice, connection: Any) -> bool:
    """Send one e-mail, if it is ours to send.

    Raises:
        OSError: the mail server is away; the notice waits again.
    """
    # Claimed before it is sent: two workers send one e-mail.
    if Notice.objects.filter(pk=notice.pk, sent_at=None).update(sent_at=timezone.now()) != 1:
        return False
    where = f"{settings.SITE_ADDRESS}{notice.path}"
    text = f"{notice.text}\n\n{where}\n"
    if notice.person_id is not None:
        text += f"\nWhether such e-mails come to you is chosen at {settings.SITE_ADDRESS}/notices/\n"
    message = EmailMessage(
        notice.title, text, settings.DEFAULT_FROM_EMAIL, notice.addresses.split("\n"), connection=connection
    )
    try:
        message.send()
    except (SMTPRecipientsRefused, SMTPDataError) as error:
        # The server is there and does not take this one: the others must not wait behind it.
        if not _is_for_good(error):
            Notice.objects.filter(pk=notice.pk).update(sent_at=None)
        logger.warning("notice %s was refused by the mail server (%s)", notice.pk, type(error).__name__)
        return False
    except OSError:
        Notice.objects.filter(pk=notice.pk).update(sent_at=None)
        raise
    return True


def _is_for_good(error: SMTPRecipientsRefused | SMTPDataError) -> bool:
    if isinstance(error, SMTPDataError):
        return error.smtp_code >= _PERMANENT
    return all(code >= _PERMANENT for code, _ in error.recipients.values())


def _to_reviewers(request: AnyRequest, title: str, text: str) -> None:
    organisation = Organisation.current()
    passed_over = {request.requested_by_id, request.first_by_id}
    people = [each for each in organisation.deciders.order_by("pk") if each.pk not in passed_over]
    tell(people, title=title, text=text, path=_review_path(request), addresses=organisation.addresses)


def _asked(request: AnyRequest) -> str:
    if isinstance(request, BudgetRequest):
        return f"a budget of epsilon {request.epsilon} for {_asked_for(request)}"
    return f"a {request.release.kind.noun} of epsilon {request.epsilon}, {request.release.title}"


def _asked_for(request: BudgetRequest) -> str:
    """The population, by a table that whoever asked may open: others may spend from the same budget unseen."""
    seen = Dataset.objects.visible_to(request.requested_by).of_population(request.budget).only("title").first()
    return seen.title if seen is not None else request.budget.name


def _review_path(request: AnyRequest) -> str:
    return f"/review/{'requests' if isinstance(request, BudgetRequest) else 'releases'}/{request.pk}/"


def _asker_s_path(request: AnyRequest) -> str:
    if isinstance(request, ReleaseRequest):
        return f"/releases/{request.release_id}/"
    # Of several tables of the population, one that the person may open.
    dataset = Dataset.objects.visible_to(request.requested_by).of_population(request.budget).only("pk").first()
    return f"/datasets/{dataset.pk}/" if dataset is not None else "/datasets/"
