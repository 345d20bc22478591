"""A small application on Django's ORM, with the databases `plain` and `herd`: models, a migration, and what its views ask for."""

from django.db import migrations, models
from django.db.models import Avg, Count, Exists, F, Max, OuterRef, Q, Subquery, Sum, Window
from django.db.models.functions import Coalesce, RowNumber, TruncMonth


class Author(models.Model):
    name = models.CharField(max_length=50)
    joined = models.DateTimeField()

    class Meta:
        app_label = "blog"


class Post(models.Model):
    # The tables are distributed by their own keys: no node could check a constraint.
    author = models.ForeignKey(Author, models.CASCADE, related_name="posts", db_constraint=False)
    title = models.CharField(max_length=80)
    likes = models.IntegerField(default=0)
    published = models.DateTimeField(null=True)
    extra = models.JSONField(default=dict)

    class Meta:
        app_label = "blog"


class Remark(models.Model):
    post = models.ForeignKey(Post, models.CASCADE, related_name="remarks", db_constraint=False)
    body = models.TextField()

    class Meta:
        app_label = "blog"


MODELS = (Author, Post, Remark)


class Migration(migrations.Migration):
    """What a later release changes."""

    operations = [
        migrations.AddField("Post", "slug", models.CharField(max_length=40, default="none")),
        migrations.AddIndex("Post", models.Index(fields=["slug"], name="blog_post_slug")),
        migrations.RunSQL("UPDATE blog_post SET slug = 'post-' || id"),
        migrations.AlterField("Post", "title", models.TextField()),
        migrations.RenameField("Remark", "body", "text"),
    ]


def questions(alias: str) -> dict:
    """What the views ask for: querysets by name."""
    authors, posts, remarks = (m.objects.using(alias) for m in MODELS)
    last = posts.filter(author=OuterRef("pk")).order_by("-published", "-pk")
    return {
        "count": authors.annotate(n=Count("posts")).order_by("pk").values_list("pk", "n"),
        "several counts": authors.annotate(n=Count("posts", distinct=True), r=Count("posts__remarks")).order_by("pk").values_list("pk", "n", "r"),
        "exists": authors.filter(Exists(posts.filter(author=OuterRef("pk"), likes__gt=15))).order_by("pk").values_list("pk"),
        "not exists": authors.filter(~Exists(posts.filter(author=OuterRef("pk")))).order_by("pk").values_list("name"),
        "exclude": authors.exclude(posts__likes__gt=10).order_by("pk").values_list("pk"),
        "subquery": authors.annotate(newest=Subquery(last.values("title")[:1])).order_by("pk").values_list("pk", "newest"),
        "in": posts.filter(author__in=authors.filter(name__endswith="3")).order_by("pk").values_list("pk"),
        "in a page": posts.filter(pk__in=posts.order_by("-likes", "pk").values("pk")[:5]).order_by("pk").values_list("pk", "likes"),
        "above": posts.filter(likes__gt=posts.values("extra__kind").annotate(a=Avg("likes")).order_by().values("a")[:1]).order_by("pk").values_list("pk"),
        "join": posts.select_related("author").filter(author__name__startswith="Author 1").order_by("pk").values_list("pk", "author__name"),
        "q": posts.filter(Q(likes__gt=20) | Q(remarks__body__contains="7"), author__pk__lt=9).distinct().order_by("pk").values_list("pk"),
        "months": posts.annotate(m=TruncMonth("published")).values("m").annotate(n=Count("pk"), s=Sum("likes")).order_by("m").values_list("m", "n", "s"),
        "json": posts.filter(extra__kind="b").order_by("pk").values_list("pk", "extra"),
        "window": posts.annotate(place=Window(RowNumber(), partition_by="author", order_by=["-likes", "pk"])).filter(place=1).order_by("pk").values_list("pk", "likes"),
        "having": authors.annotate(s=Coalesce(Sum("posts__likes"), 0)).filter(s__gt=30).order_by("-s", "pk").values_list("pk", "s"),
        "distinct on": posts.order_by("author", "-likes", "pk").distinct("author").values_list("author", "pk"),
        "union": authors.values_list("name").union(posts.filter(likes__gt=25).values_list("title")).order_by("name"),
        "newest of all": posts.values("author").annotate(m=Max("published")).order_by("author").values_list("author", "m"),
        "remarks of remarks": remarks.filter(post__author__posts__likes=F("post__likes")).order_by("pk").values_list("pk", "post__author__name"),
    }
