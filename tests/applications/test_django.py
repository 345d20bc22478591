"""Django's ORM on both servers at once: the same models, rows and questions."""

import datetime

import pytest

import django
from django.conf import settings

ALIASES = ("plain", "herd")


@pytest.fixture(scope="module")
def blog(oracle, herd):
    databases = {
        alias: {
            "ENGINE": "django.db.backends.postgresql", "NAME": server.dbname, "USER": server.user, "HOST": server.host, "PORT": server.port,
            "OPTIONS": {"sslmode": "disable", "options": "-c search_path=blog"},
        }
        for alias, server in zip(ALIASES, (oracle, herd))
    }
    settings.configure(DATABASES=databases | {"default": databases["plain"]}, USE_TZ=True, INSTALLED_APPS=["applications.programs.blog"], DEFAULT_AUTO_FIELD="django.db.models.BigAutoField")
    django.setup()
    from django.db import connections

    from applications.programs.blog import models as program

    for alias, server in zip(ALIASES, (oracle, herd)):
        server.run("DROP SCHEMA IF EXISTS blog CASCADE", "CREATE SCHEMA blog")
        with connections[alias].schema_editor() as editor:
            for model in program.MODELS:
                editor.create_model(model)
    for model in program.MODELS:
        with connections["herd"].cursor() as cursor:
            cursor.execute("SELECT create_distributed_table(%s, 'id')", [model._meta.db_table])
    for alias in ALIASES:
        _fill(program, alias)
    yield program
    for alias, server in zip(ALIASES, (oracle, herd)):
        connections[alias].close()
        server.run("DROP SCHEMA blog CASCADE")


def _fill(program, alias: str) -> None:
    first = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    day = datetime.timedelta(days=1)
    program.Author.objects.using(alias).bulk_create(program.Author(pk=i, name=f"Author {i}", joined=first + i * day) for i in range(1, 21))
    program.Post.objects.using(alias).bulk_create(
        program.Post(pk=i, author_id=1 + i % 17, title=f"Post {i}", likes=i * 7 % 29, published=first + i * 2 * day, extra={"kind": "abc"[i % 3]})
        for i in range(1, 81)
    )
    program.Remark.objects.using(alias).bulk_create((program.Remark(pk=i, post_id=1 + i % 61, body=f"remark {i}") for i in range(1, 161)), batch_size=50)


def test_questions(blog):
    plain, herd = (blog.questions(alias) for alias in ALIASES)
    for name, query in plain.items():
        rows = list(query)
        assert rows, name
        assert list(herd[name]) == rows, name
        assert list(herd[name].iterator(chunk_size=3)) == rows, name


def test_writes(blog):
    from django.db import IntegrityError, transaction

    class Undo(Exception):
        pass

    seen = []
    for alias in ALIASES:
        authors, posts, remarks = (m.objects.using(alias) for m in blog.MODELS)
        with pytest.raises(Undo), transaction.atomic(using=alias):
            done = [posts.filter(likes__gt=20).update(likes=1), posts.filter(author__name="Author 3").update(title="changed")]
            done.append(posts.filter(pk__in=list(posts.filter(likes=1).order_by("pk").values_list("pk", flat=True)[:4])).delete())
            done.append(authors.get(pk=5).delete(using=alias))
            with pytest.raises(IntegrityError), transaction.atomic(using=alias):
                authors.create(pk=6, name="again", joined=datetime.datetime.now(datetime.timezone.utc))
            made, new = remarks.get_or_create(pk=4711, defaults={"post_id": 1, "body": "x"})
            made.body = "y"
            made.save()
            done.append((new, remarks.update_or_create(pk=4711, defaults={"body": "z"})[1], authors.select_for_update().get(pk=7).name))
            posts.bulk_update([blog.Post(pk=i, likes=100 + i) for i in (10, 20, 30)], ["likes"])
            done += [list(model.objects.using(alias).order_by("pk").values_list()) for model in blog.MODELS]
            seen.append(done)
            raise Undo
    assert seen[0] == seen[1]


def test_migration(blog):
    """The last one: models are as they were afterwards, tables are not."""
    from django.db import connections
    from django.db.migrations.state import ModelState, ProjectState

    seen = []
    for alias in ALIASES:
        state = ProjectState()
        for model in blog.MODELS:
            state.add_model(ModelState.from_model(model))
        with connections[alias].schema_editor() as editor:
            blog.Migration("0002_later", "blog").apply(state, editor)
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT p.*, r.text FROM blog_post p JOIN blog_remark r ON r.post_id = p.id ORDER BY r.id")
            seen.append(([c.name for c in cursor.description], cursor.fetchall()))
    assert seen[0] == seen[1] and seen[0][1][0]


def test_rows_get_their_own_keys(blog):
    """Django asks for the keys of many rows at once, and takes them in the order in which it gave the rows."""
    from django.db import connections

    first = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    for alias in ALIASES:
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), 1000)", [blog.Author._meta.db_table])
        many = blog.Author.objects.using(alias).bulk_create(blog.Author(name=f"many {i}", joined=first) for i in range(300))
        names = dict(blog.Author.objects.using(alias).filter(name__startswith="many ").values_list("pk", "name"))
        assert {author.pk: author.name for author in many} == names and len(names) == 300
        blog.Author.objects.using(alias).filter(name__startswith="many ").delete()
