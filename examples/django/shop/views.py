from django.contrib.auth import authenticate, login
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from headgate.middleware.django import limit
from headgate.middleware.drf import HeadgateThrottle


@csrf_exempt
@require_POST
@limit(
    "3/hour",
    by=lambda request: request.POST.get("username"),
    when=lambda response: response.status == 403,
    name="login",
)
def sign_in(request: HttpRequest) -> HttpResponse:
    """Three wrong passwords for one name; the right one costs nothing."""
    user = authenticate(request, username=request.POST.get("username"), password=request.POST.get("password"))
    if user is None:
        return HttpResponse("Wrong name or password\n", status=403)
    login(request, user)
    return HttpResponse(f"Welcome, {user}\n")


def items(request: HttpRequest) -> JsonResponse:
    """Nothing to say here: rules.yaml does."""
    return JsonResponse({"items": ["lamp", "table"]})


def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse("well\n")


class OrderThrottle(HeadgateThrottle):
    limit = "2/minute"


class Orders(APIView):
    permission_classes = [IsAuthenticated]
    throttle_classes = [OrderThrottle]

    def post(self, request: Request) -> Response:
        return Response({"ordered": request.data.get("item")}, status=201)
