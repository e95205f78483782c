"""What the REST API answers to what it refuses: always JSON with a message, and the field, value and rule of a rule
that was broken. Programs read it, so no page stands in for it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from ninja import NinjaAPI, Schema
from ninja.errors import AuthenticationError, HttpError, ValidationError, ValidationErrorContext
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation
from ninja.parser import Parser

from releases.engine.errors import InvalidInput
from releases.models.role_rules import NotAllowed

#: What a whole body is called where no one field of it is meant.
_BODY = "body"
_MAX_SHOWN = 200
#: Parameters that come as one JSON object: their name is ours, and nobody sends it.
_WRAPPED = "body"
#: Amounts of privacy are exact, which a JSON number is not once a program has read it.
_EXACT = ("epsilon", "delta", "beta")
_RULES = {
    "missing": "must be given",
    "string_type": "must be text",
    "dict_type": "must be an object",
    "list_type": "must be a list",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "uuid_type": "must be a UUID, as text",
    "uuid_parsing": "must be a UUID",
}
#: A null character in JSON; behind another backslash the same letters are text.
_NULL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_NOT_THERE = "There is no such thing, or it is not yours to see."
_MESSAGES = {
    400: "The request cannot be read.",
    403: "This is not allowed.",
    404: _NOT_THERE,
    500: "Something failed here. An administrator of this site can find it in its log.",
}


class TextParser(Parser):
    """Reads JSON without what no text has and PostgreSQL refuses to keep: null characters, and halves of characters."""

    def parse_body(self, request: HttpRequest) -> Any:
        try:
            parsed = super().parse_body(request)
            written = json.dumps(parsed, ensure_ascii=False)
            written.encode()
        except UnicodeError as error:
            raise _Unreadable("must be text in UTF-8") from error
        except (ValueError, RecursionError) as error:
            raise _Unreadable(f"must be JSON: {error}") from error
        # As it is written again, whatever encoding it came in.
        if _NULL.search(written):
            raise _Unreadable("must not hold a null character, which no text has")
        if not isinstance(parsed, dict):
            # The framework would look for the fields among a list's own attributes, and call one missing.
            raise _Unreadable("must be an object")
        return parsed


class _Unreadable(Exception):
    """A body that is no object in JSON. The text is the rule that it breaks."""


class Refused(Schema):
    """What is refused, and why, in a sentence; with the field, the value and the rule where a value breaks one."""

    message: str
    field: str | None = None
    value: str | None = None
    rule: str | None = None


class Api(NinjaAPI):
    """Keeps what was sent beside each mistake in its type, and describes refusals, which the framework leaves out.

    Names each operation by itself alone: programs made from the description keep their calls when code moves.
    """

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__

    def get_openapi_schema(self, **options: Any) -> OpenAPISchema:
        described = super().get_openapi_schema(**options)
        described["components"]["schemas"][Refused.__name__] = Refused.json_schema()
        refusal = {
            "description": "Refused: a value breaks a rule (400), no good token (401), not allowed (403), not there or "
            "not one's own (404), not to be done now (409), or public no longer (410).",
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{Refused.__name__}"}}},
        }
        for operations in described["paths"].values():
            for each in operations.values():
                each["responses"]["default"] = refusal
        return described

    def validation_error_from_error_contexts(
        self, error_contexts: list[ValidationErrorContext[Any]]
    ) -> ValidationError:
        found: list[dict[str, Any]] = []
        for context in error_contexts:
            is_wrapped = context.model.__ninja_param_source__ == _WRAPPED
            for each in context.pydantic_validation_error.errors(include_url=False):
                place = each["loc"][1:] if is_wrapped else each["loc"]
                found.append({**each, "loc": place})
        return ValidationError(found)


def answer_in_json(api: NinjaAPI) -> None:
    """Have an API answer what it refuses in the one form."""

    def answer(request: HttpRequest, status: int, message: str, **more: Any) -> HttpResponse:
        response = api.create_response(request, {**more, "message": message}, status=status)
        if status == 401:
            response["WWW-Authenticate"] = "Bearer"
        return response

    def broken(
        request: HttpRequest, field: str, value: str | None, rule: str, message: str, status: int = 400
    ) -> HttpResponse:
        return answer(request, status, message, field=field, value=value, rule=rule)

    @api.exception_handler(InvalidInput)
    def invalid(request: HttpRequest, error: InvalidInput) -> HttpResponse:
        status = 403 if isinstance(error, NotAllowed) else 400
        return broken(request, error.field, str(error.value)[:_MAX_SHOWN], error.rule, str(error), status)

    @api.exception_handler(ValidationError)
    def of_another_type(request: HttpRequest, error: ValidationError) -> HttpResponse:
        wrong = error.errors[0]
        field, rule = _field(wrong["loc"]), _rule(wrong)
        if wrong["type"] == "missing":
            return broken(request, field, None, rule, f"{field} {rule}")
        value = _shown(wrong["input"])
        return broken(request, field, value, rule, f"{field}: {value} {rule}")

    @api.exception_handler(HttpError)
    def refused(request: HttpRequest, error: HttpError) -> HttpResponse:
        if isinstance(error.__cause__, _Unreadable):
            rule = str(error.__cause__)
            value = request.body[:_MAX_SHOWN].decode(errors="replace")
            return broken(request, _BODY, value, rule, f"The {_BODY} {rule}")
        return answer(request, error.status_code, str(error))

    @api.exception_handler(AuthenticationError)
    def not_signed_in(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
        if shows_a_token(request):
            said = "There is no such token, or it was revoked. Make another under Tokens for programs."
        else:
            said = "No token was shown. Send one with every call: “Authorization: Bearer dpweb_...”."
        return answer(request, error.status_code, said)

    @api.exception_handler(Http404)
    def not_there(request: HttpRequest, error: Http404) -> HttpResponse:  # noqa: ARG001  the framework passes it
        return answer(request, 404, _NOT_THERE)


def _field(place: tuple[str | int, ...]) -> str:
    """Where a value stands, as the engine says it: `columns[2].edges`."""
    said = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return said.removeprefix(".") or _BODY


def _rule(wrong: dict[str, Any]) -> str:
    sent, kind = wrong["input"], wrong["type"]
    is_number = isinstance(sent, int | float) and not isinstance(sent, bool)
    if kind == "string_type" and is_number and wrong["loc"][-1] in _EXACT:
        return f'must be text: exact numbers are sent as text, "{_shown(sent)}"'
    known = _RULES.get(kind)
    return known if known is not None else str(wrong["msg"]).replace("Input should be", "must be", 1)


def _shown(sent: Any) -> str:
    text = sent if isinstance(sent, str) else json.dumps(sent, ensure_ascii=False, default=str)
    return text[:_MAX_SHOWN]


def shows_a_token(request: HttpRequest) -> bool:
    """Whether a request says by a token, right or wrong, whose it is."""
    return request.headers.get("Authorization", "").lower().startswith("bearer ")


def is_for_programs(request: HttpRequest) -> bool:
    """Whether an address belongs to the API."""
    return request.path.startswith(reverse("programs"))


class ApiErrorsMiddleware:
    """Puts a sentence in JSON in the place of the page that refuses, where no operation has answered."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if (
            response.status_code >= 400
            and isinstance(response, HttpResponse)
            and is_for_programs(request)
            and response["Content-Type"].split(";")[0] != "application/json"
        ):
            # The same response, for its other headers: which methods are taken, for one.
            response.content = json.dumps({"message": _message(request, response)}).encode()
            response["Content-Type"] = "application/json; charset=utf-8"
            response["Content-Length"] = str(len(response.content))
        return response


def _message(request: HttpRequest, response: HttpResponse) -> str:
    if response.status_code == 405:
        return f"{request.method} is not taken here, only {response['Allow']}."
    return _MESSAGES.get(response.status_code, response.reason_phrase)
