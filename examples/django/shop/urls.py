from django.urls import path

from shop import views

urlpatterns = [
    path("login", views.sign_in),
    path("items", views.items),
    path("api/orders", views.Orders.as_view()),
    path("healthz", views.healthz),
]
