"""`manage.py roles`: the roles of an account, given and taken by whoever has a shell here."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from releases import services
from releases.models import Role
from releases.models.role_rules import roles_of


class Command(BaseCommand):
    help = "Show, give and take the roles of an account. Administrators do the same on the page “People and roles”."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the user name of the account")
        parser.add_argument("--give", nargs="+", choices=Role.values, default=[], metavar="ROLE")
        parser.add_argument("--take", nargs="+", choices=Role.values, default=[], metavar="ROLE")

    def handle(self, **options: Any) -> None:
        person = User.objects.filter(username=options["name"]).first()
        if person is None:
            raise CommandError(f"No account is called {options['name']!r}.")
        try:
            with transaction.atomic():
                for role in options["give"]:
                    services.roles.give_role(person=person, role=Role(role), by=None)
                for role in options["take"]:
                    services.roles.take_role(person=person, role=Role(role), by=None)
        except services.roles.LastAdministrator as error:
            raise CommandError(str(error)) from None
        held = roles_of(User.objects.get(pk=person.pk))
        self.stdout.write(f"{person}: {', '.join(role.label for role in Role if role in held) or 'no role'}")
